package manifest

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"talon/sdk/abi"
)

// TestDecisionsAreVectors reads what a recording writes as a vector again, and what
// stands beside it.
func TestDecisionsAreVectors(t *testing.T) {
	since, limit := int64(0), 0
	client := &VectorClient{Address: "::1", Authed: []Key{{1}}, UserAgent: "u", Origin: "o<", Path: "/"}
	filters := []VectorFilter{
		FilterOf(&abi.QueryFilter[[32]byte, Key, uint16, struct {
			Name   byte
			Values []string
		}]{
			IDs: [][32]byte{{2}}, Authors: []Key{{3}}, Kinds: []uint16{0, 65535}, Tags: []tagCondition{{'t', []string{"<x>", ""}}},
			Since: &since, Until: &since, Limit: limit,
		}),
		FilterOf(&abi.QueryFilter[Key, Key, uint16, tagCondition]{Kinds: []uint16{1}, Limit: -1}),
	}
	event := json.RawMessage(`{"id":"` + strings.Repeat("ab", 32) + `","kind":1,"created_at":5}`)
	for _, d := range []Decision{
		{Function: "admit", Now: 7, Event: event, Source: &VectorSource{Origin: "sync", Address: "1.2.3.4", Relay: "wss://r", Authed: []Key{{4}}}, Stored: []json.RawMessage{event}, Held: []json.RawMessage{event}},
		{Function: "query", Now: 7, Client: client, Verb: "neg", Filters: filters, Sets: map[string][]string{"s": {"x"}}},
		{Function: "connect", Now: 7, Client: client, Open: 3, FromAddress: 2},
		{Function: "push", Now: 7, Client: client, Push: &VectorPush{
			Repo: "30617:" + strings.Repeat("ab", 32) + ":d", Maintainers: []Key{{5}}, Bytes: 1, Stored: 2, PRs: true,
			Updates: []VectorUpdate{{"refs/heads/<main>", strings.Repeat("0", 40), strings.Repeat("a", 40)}},
		}},
	} {
		d.Service = VectorService{Domain: "relay.example.com", PRs: true, Operator: Key{6}}
		d.Want = VectorWant{Action: "reject", Rule: "r", Reason: "blocked: <no>"}
		d.Recorded = Recorded{By: "p", Chain: []string{"p", "q"}, Asked: 1, Unseen: []string{"git.has"}}
		line, err := d.Line()
		if err != nil {
			t.Fatal(err)
		}
		if text := string(line); strings.Count(text, "\n") != 1 || strings.Contains(text, `\u003c`) {
			t.Errorf("%s is not one line, or not as it is written by hand", text)
		}
		var v Vector
		var beside Recorded
		if err := json.Unmarshal([]byte(`{"name":"x",`+string(line[1:])), &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if err := json.Unmarshal(line, &beside); err != nil || !reflect.DeepEqual(beside, d.Recorded) {
			t.Errorf("%s: %+v, %v", line, beside, err)
		}
		source, client := VectorSource{}, VectorClient{}
		if d.Source != nil {
			source = *d.Source
		}
		if d.Client != nil {
			client = *d.Client
		}
		if v.Function != d.Function || v.Now != 7 || *v.Service != d.Service || !reflect.DeepEqual(v.Source, source) || !reflect.DeepEqual(v.Client, client) ||
			v.Verb != d.Verb || !reflect.DeepEqual(v.Filters, d.Filters) || int(v.Open) != d.Open || int(v.FromAddress) != d.FromAddress ||
			!reflect.DeepEqual(v.Push, d.Push) || !reflect.DeepEqual(v.Sets, d.Sets) || v.Want != d.Want ||
			(v.Event != nil) != (d.Event != nil) || len(v.Stored) != len(d.Stored) || len(v.Held) != len(d.Held) {
			t.Errorf("%s\nis read as %+v", line, v)
		}
		if v.Event != nil && (v.Event.ID != Key(([]byte)(strings.Repeat("\xab", 32))) || v.Event.CreatedAt != 5) {
			t.Errorf("%s: the event is read as %+v", line, v.Event)
		}
	}
}
