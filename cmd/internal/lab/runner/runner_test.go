package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/runner"
	"talon/cmd/internal/lab/scenario"
	"talon/host/plugin/guest"
	"talon/sdk/abi"
	"talon/sdk/strategy/story"
)

// script is a strategy that a test writes.
type script struct {
	name  string
	react func(v *abi.StepView) ([]byte, error)
}

func (s *script) About() result.Module                         { return result.Module{Name: s.name} }
func (s *script) New(context.Context) (engine.Instance, error) { return s, nil }
func (s *script) Memory() int64                                { return 0 }
func (s *script) Close()                                       {}
func (s *script) Call(_ context.Context, _ guest.Func, request []byte, _ int64) ([]byte, int64, error) {
	var v abi.StepView
	if err := v.Decode(request); err != nil {
		return nil, 0, err
	}
	answer, err := s.react(&v)
	return answer, 1, err
}

func actions(list ...abi.StepAction) (b []byte) {
	for i := range list {
		b = abi.AppendAction(b, &list[i])
	}
	return b
}

// everything subscribes to all announcements and to what tags each repository, once or
// several times.
func everything(name string, times int) *script {
	return &script{name, func(v *abi.StepView) ([]byte, error) {
		switch v.Kind {
		case abi.InputRelayConnected:
			return actions(abi.StepAction{Do: abi.DoSubscribe, Relay: string(v.RelayConnected().Relay), ID: "all", Filters: []abi.Filter{{Kinds: []uint32{30617, 30618}}}}), nil
		case abi.InputLocalEvent:
			in := v.LocalEvent()
			var list []abi.StepAction
			for it := in.Repositories(); it.Next() && in.Kind == 30617; {
				address := string(it.Text())
				name := address[strings.LastIndexByte(address, ':')+1:]
				for i := range times {
					list = append(list, abi.StepAction{
						Do: abi.DoSubscribe, Relay: relay, ID: fmt.Sprintf("%s-%d", name, i),
						Filters: []abi.Filter{{Tags: []abi.TagFilter{{Name: "a", Values: []string{address}}}}},
					})
				}
			}
			return actions(list...), nil
		}
		return nil, nil
	}}
}

const relay = "wss://only-0.example"

const text = `
duration = "2h"
quiet = "30m"
[relays.only]
count = 1
bootstrap = 1
[repositories]
count = 3
relays-min = 1
relays-max = 1
roots = 10
comments = 0
states = false
[publishers]
roots-per-day = 100
comments-per-day = 0
states-per-day = 0
[[fault]]
what = "reset"
at = "100m"
`

func plan(t *testing.T, variants ...engine.Module) *runner.Plan {
	t.Helper()
	s, err := scenario.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p := &runner.Plan{First: 1, Seeds: 3, Jobs: 1}
	for _, m := range variants {
		p.Variants = append(p.Variants, runner.Variant{Scenario: s, Strategy: m})
	}
	return p
}

func runs(t *testing.T, p *runner.Plan) (list []*result.Run, lines string) {
	t.Helper()
	var b bytes.Buffer
	w := result.NewWriter(&b)
	p.Write = func(r *result.Run) error {
		list = append(list, r)
		return w.Write(r)
	}
	if err := runner.Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return list, b.String()
}

// The number of concurrent runs changes nothing.
func TestOrder(t *testing.T) {
	p := plan(t, everything("once", 1), everything("other", 1))
	list, one := runs(t, p)
	if len(list) != 6 || list[0].Strategy.Name != "once" || list[1].Strategy.Name != "other" || list[1].Seed != 1 || list[5].Seed != 3 {
		t.Fatalf("got %d runs in another order", len(list))
	}
	for _, r := range list {
		if complete, _ := r.Measures.Get(result.Completeness); complete != 1 || r.End.How != result.Finished {
			t.Errorf("seed %d: complete %v, %+v", r.Seed, complete, r.End)
		}
	}
	p.Jobs = 4
	if _, four := runs(t, p); one != four {
		t.Error("four runs at once make other bytes")
	}
}

// A broken invariant ends a run, and the shortest prefix that shows it is found: here the
// one announcement whose repository is asked for twice.
func TestShrink(t *testing.T) {
	p := plan(t, everything("twice", 2))
	p.Shrink = 200
	list, _ := runs(t, p)
	for _, r := range list {
		i := slices.IndexFunc(r.Findings, func(f result.Finding) bool { return f.Invariant == "twice" })
		if r.End.How != result.BrokenInvariant || i < 0 {
			t.Fatalf("seed %d: %+v, %+v", r.Seed, r.End, r.Findings)
		}
		if p := r.Findings[i].Prefix; len(p.Events) != 1 || len(p.Faults) != 0 || p.Until.Duration().Minutes() > 60 {
			t.Errorf("seed %d: %+v shows it, want one event", r.Seed, p)
		}
	}
}

// A finding is a story, and the strategy does the same in it as in the lab.
func TestStory(t *testing.T) {
	p := plan(t, everything("twice", 2))
	p.Seeds, p.Shrink = 1, 200
	list, _ := runs(t, p)
	i := slices.IndexFunc(list[0].Findings, func(f result.Finding) bool { return f.Invariant == "twice" })
	text, err := runner.Story(t.Context(), &p.Variants[0], list[0], &list[0].Findings[i])
	if err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(text, "\n")
	if !strings.Contains(first, "seed 1, after ") || !strings.Contains(first, ": twice: the subscriptions ") || strings.Contains(rest, "#  ") {
		t.Errorf("the story begins with\n%s", text[:min(len(text), 500)])
	}
	played, err := story.Play(text, func(map[string]any) (story.Step, error) {
		return func(request []byte) ([]byte, error) {
			answer, _, err := everything("twice", 2).Call(t.Context(), guest.Step, request, 0)
			return answer, err
		}, nil
	})
	if err != nil || played != text || strings.Contains(text, "does otherwise") {
		t.Errorf("%v\n%s\n%s", err, story.Difference(text, played), text)
	}
}

// A module that fails, or answers what cannot be read, is a finding and not the end of the
// program.
func TestBadModules(t *testing.T) {
	fails := &script{"fails", func(*abi.StepView) ([]byte, error) { return nil, errors.New("it traps") }}
	garbage := &script{"garbage", func(*abi.StepView) ([]byte, error) { return []byte("\xff\xff\xff"), nil }}
	busy := &script{"busy", func(v *abi.StepView) ([]byte, error) {
		return actions(abi.StepAction{Do: abi.DoSetTimer, ID: "now", At: 1}), nil
	}}
	p := plan(t, fails, garbage, busy)
	p.Seeds = 1
	list, _ := runs(t, p)
	if r := list[0]; r.End.How != result.ModuleFailed || len(r.Findings) == 0 || !strings.Contains(r.Findings[0].Text, "it traps") {
		t.Errorf("one that fails: %+v, %+v", r.End, r.Findings)
	}
	// Nothing arrives either.
	if r := list[1]; r.End.How != result.BrokenInvariant || len(r.Findings) != 2 || r.Findings[0].Invariant != "late" || r.Findings[1].Invariant != "actions" {
		t.Errorf("one that answers garbage: %+v, %+v", r.End, r.Findings)
	}
	if r := list[2]; r.End.How != result.BrokenInvariant || r.Findings[0].Invariant != "busy" {
		t.Errorf("one that does not rest: %+v, %+v", r.End, r.Findings)
	}
}

// Interrupted, it writes what is done.
func TestInterrupted(t *testing.T) {
	p := plan(t, everything("once", 1))
	p.Seeds = 1000
	ctx, cancel := context.WithCancel(t.Context())
	var list []*result.Run
	p.Write = func(r *result.Run) error {
		if list = append(list, r); len(list) == 3 {
			cancel()
		}
		return nil
	}
	if err := runner.Run(ctx, p); err != nil || len(list) < 3 || len(list) > 5 || list[2].End.How != result.Finished {
		t.Errorf("%d runs, %v", len(list), err)
	}
}

func TestSweeps(t *testing.T) {
	a, err := runner.ParseSweep(`relays.x.keys="a, b",'c'`)
	if err != nil || !slices.Equal(a.Values, []string{`"a, b"`, `'c'`}) {
		t.Errorf("%+v, %v", a, err)
	}
	b, _ := runner.ParseSweep("talon.count=1,2,3")
	all, err := runner.Combinations([]runner.Sweep{a, b})
	if err != nil || len(all) != 6 || all[1][1].Value != "2" || all[3][0].Value != "'c'" {
		t.Errorf("%+v, %v", all, err)
	}
	for _, text := range []string{"x", "=1", "x=", "x=1,,2"} {
		if _, err := runner.ParseSweep(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	many := runner.Sweep{Key: "x", Values: make([]string, 100)}
	if _, err := runner.Combinations([]runner.Sweep{many, many}); err == nil {
		t.Error("10,000 variants are accepted")
	}
}
