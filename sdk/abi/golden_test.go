package abi

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/messages.golden")

// TestGoldenBytes compares the bytes of every message with testdata/messages.golden, because
// modules that were built years ago read and write them. The tests of internal/abigen check their
// meaning, with another implementation of protobuf and talon.proto.
func TestGoldenBytes(t *testing.T) {
	var text strings.Builder
	for _, sample := range goldenSamples() {
		fmt.Fprintf(&text, "%s %x\n", sample.message, sample.encoded)
	}

	file := filepath.Join("testdata", "messages.golden")
	if *update {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, got := strings.Split(string(golden), "\n"), strings.Split(text.String(), "\n")
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Fatalf("line %d of %s is not what the encoders write. What modules read and write must not change; "+
				"if a message has a new field, go test talon/sdk/abi -update, go test ./internal/abigen -update, and only lines with that field change.\nwrites %s\ngolden %s",
				i+1, file, slices.Concat(got, make([]string, i+1))[i], slices.Concat(want, make([]string, i+1))[i])
		}
	}
}

type goldenSample struct {
	message string
	encoded []byte
}

func goldenSamples() []goldenSample {
	since, until := int64(-5), int64(1<<40)
	samples := []goldenSample{
		{"Event", AppendEvent(nil, sampleEvent())},
		{"EventList", AppendMore(AppendEventOf(AppendEventOf(nil, sampleEvent()), &Event[[]string]{Kind: 1}))},
		{"AdmitRequest", AppendAdmitRequest(nil, &AdmitRequest[[]string, [32]byte]{
			Event: *sampleEvent(), Origin: OriginSync, Address: []byte("::1"), Relay: "wss://r", Authed: [][32]byte{key32(1), key32(2)}, Now: 77,
		})},
		{"Verdict", AppendParent(AppendRetry(AppendVerdict(nil, ActionReject, "spam", "blocked", "no spam"), 60), "30617:ab:x")},
		{"Verdict", AppendAudience(AppendVerdict(nil, ActionRestrict, "members", "", ""), strings.Repeat("\x01", 64), "members")},
		{"Verdict", AppendLimits(AppendEnd(AppendVerdict(nil, ActionPass, "", "", "")), 100<<20, 1<<40)},
		{"Verdict", AppendWake(AppendVerdict(nil, ActionHold, "unknown", "purgatory", "waits"), AppendFilter(nil, &Filter{Authors: [][32]byte{key32(2)}, Kinds: []uint32{7}}), 604800)},
		{"Configured", AppendConfigured(nil, &Configured{
			Failure: "config x = 7", Idle: []string{"admit", "query"}, About: About{[]string{"GRASP-01", "GRASP-05"}, "all", "some", WritesOpen, Limitation{300, 2000, 3600, 900, 16, true}},
		})},
		{"Config", AppendConfig(nil, &Config{
			Settings: []Setting{
				{Key: "s", Strings: []string{"a", ""}}, {Key: "i", Ints: []int64{-1, 0, math.MaxInt64}},
				{Key: "b", Bools: []bool{true, false}}, {Key: "f", Floats: []float64{0.5, -1}}, {Key: "none"},
			},
			Service: Service{"relay.example.com", true, key32(7)},
		})},
		{"Filter", AppendFilter(nil, &Filter{
			IDs: [][32]byte{key32(1)}, Authors: [][32]byte{key32(2), key32(3)}, Kinds: []uint32{0, 1, 30023},
			Tags: []TagFilter{{"t", []string{"x", ""}}, {"e", nil}}, Since: &since, Until: &until, Limit: 9, Header: true,
		})},
		{"QueryRequest", sampleQuery(nil)},
		{"ConnectRequest", AppendConnectRequest(nil, &ConnectRequest[[32]byte]{Client: sampleClient(), Open: 300, FromAddress: 2, Now: 77})},
		{"PushRequest", samplePush(nil)},
		{"StepActions", appendActions(sampleActions()...)},
		{"DelayRequest", AppendDelayRequest(nil, &DelayRequest{77, sampleSubject(), OriginSync, 30618, 9})},
		{"DelayAnswer", AppendDelayAnswer(nil, &DelayAnswer{500, 1_800_000})},
		{"ThrottleAdmitRequest", AppendThrottleAdmitRequest(nil, &ThrottleAdmitRequest{77, sampleSubject(), "30617:ab:x", 9})},
		{"ThrottleAdmitAnswer", AppendThrottleAdmitAnswer(nil, &ThrottleAdmitAnswer{Start: true, Wait: 9})},
		{"AfterRequest", AppendAfterRequest(nil, sampleAfter())},
		{"AfterAnswer", AppendAfterAnswer(nil, &AfterAnswer{5, true, HealthBarred, "x"})},
		{"PickRequest", AppendPickRequest(nil, samplePick())},
		{"PickAnswer", AppendPickAnswer(nil, &PickAnswer{Index: 3})},
		{"PickAnswer", AppendPickAnswer(nil, &PickAnswer{None: true})},
		{"TickRequest", AppendTickRequest(nil, sampleTick())},
		{"TickAnswer", AppendTickAnswer(nil, &TickAnswer{Set: true, Limits: ClientLimits{1, 2, 3, 4, 5, 6, 7}})},
		{"Event", AppendEvent(nil, &Event[[]string]{})},
		{"Event", AppendEvent(nil, &Event[[]string]{CreatedAt: -1, Kind: 65535})},
		{"EventList", AppendEventOf(AppendEventOf(nil, &Event[[]string]{Kind: 1}), &Event[[]string]{Content: "x"})},
		{"AdmitRequest", AppendAdmitRequest(nil, &AdmitRequest[[]string, [32]byte]{})},
		{"Verdict", AppendVerdict(nil, ActionPass, "", "", "")},
		{"Verdict", AppendRetry(AppendVerdict(nil, ActionReject, "", "", ""), 0)},
		{"Verdict", AppendVerdict(nil, ActionRequireAuth, "", "", "auth-required: x")},
		{"Configured", AppendConfigured(nil, &Configured{About: About{Grasps: []string{"GRASP-01"}, Criteria: strings.Repeat("y", 300)}})},
		{"Config", AppendConfig(nil, &Config{Service: Service{Operator: key32(7)}})},
		{"Filter", AppendFilter(nil, &Filter{Tags: []TagFilter{{"e", nil}}, Until: new(int64)})},
		{"Filter", AppendFilter(nil, &Filter{})},
		{"QueryRequest", AppendQueryRequest(nil, &QueryRequest[[32]byte]{})},
		{"ConnectRequest", AppendConnectRequest(nil, &ConnectRequest[[32]byte]{})},
		{"PushRequest", AppendPushRequest(nil, &PushRequest[[32]byte, RefUpdate]{})},
		{"DelayRequest", AppendDelayRequest(nil, &DelayRequest{})},
		{"ThrottleAdmitAnswer", AppendThrottleAdmitAnswer(nil, &ThrottleAdmitAnswer{Start: true})},
		{"ThrottleAdmitAnswer", AppendThrottleAdmitAnswer(nil, &ThrottleAdmitAnswer{Wait: 9})},
		{"TickAnswer", AppendTickAnswer(nil, &TickAnswer{})},
		{"TickAnswer", AppendTickAnswer(nil, &TickAnswer{Set: true, Limits: ClientLimits{Events: 9}})},
	}
	for _, input := range sampleInputs {
		samples = append(samples, goldenSample{"StepRequest", AppendStep(nil, 77, input)})
	}
	return samples
}
