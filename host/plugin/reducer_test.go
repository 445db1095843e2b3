package plugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"talon/host/plugin/guest"
	"talon/host/plugin/plugintest"
	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
)

// reducers opens a world with the smallest strategy and the smallest throttle.
func reducers(t *testing.T) *world {
	w := newWorld(t)
	built := plugintest.Build(t, "examples/hello-strategy", "examples/hello-throttle")
	for _, name := range []string{"hello-strategy", "hello-throttle"} {
		wasm, err := os.ReadFile(filepath.Join(built, name+".wasm"))
		if err != nil {
			t.Fatal(err)
		}
		w.drop(name+".wasm", wasm)
	}
	w.drop("open.wasm", accepting("1").wasm(t))
	w.o.CacheDir = plugintest.MachineCode(t, "examples/hello-strategy", "examples/hello-throttle")
	w.mustOpen()
	return w
}

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

// relays is the world of the tests: one repository, named on some relays.
type relays []string

func (l relays) init() []byte {
	return abi.AppendStep(nil, now*1000, &abi.StepInit{
		Limits: abi.StepLimits{
			Connections: 10, Subscriptions: 10, Filters: 10, Values: 100, Historics: 2, Timers: 10, Actions: 100, Bytes: 4096,
		},
		Repositories: []abi.KnownRepository{{Address: repository, Level: abi.SyncLevelFull, Relays: l}},
	})
}

var repository = "30617:" + strings.Repeat("ab", 32) + ":talon"

// connects are the relays that an answer connects to.
func connects(t *testing.T, answer []byte) (list []string) {
	t.Helper()
	actions, err := abi.DecodeActions(answer, abi.ActionLimits{Actions: 100, Filters: 10, Values: 100, AllValues: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range actions {
		if a.Do == abi.DoConnect {
			list = append(list, a.Relay)
		}
	}
	return list
}

// TestStrategySwap swaps a strategy: the new one begins with the world as it is,
// not with inputs that the old one has not had yet.
func TestStrategySwap(t *testing.T) {
	w := reducers(t)
	known := relays{"wss://one.example.com"}
	x := w.Reducer(manifest.WorldStrategy, func() []byte { return known.init() })
	defer x.Close()
	step := func(input abi.Input) ([]string, bool) {
		t.Helper()
		answer, fresh, err := x.Call(t.Context(), guest.Step, abi.AppendStep(nil, now*1000, input), now)
		if err != nil {
			t.Fatal(err)
		}
		return connects(t, answer), fresh
	}
	timer := &abi.TimerFired{ID: "probe"}
	if list, fresh := step(timer); !fresh || fmt.Sprint(list) != "[wss://one.example.com]" {
		t.Errorf("the first call: %v, %v", list, fresh)
	}
	if list, fresh := step(timer); fresh || len(list) != 0 {
		t.Errorf("the second call: %v, %v", list, fresh)
	}
	known = relays{"wss://two.example.com"}
	w.change("hello-strategy.toml", []byte("[config]\nmax_relays = 1\n"))
	select {
	case <-x.Changed():
	default:
		t.Error("nobody says that it was swapped")
	}
	if list, fresh := step(timer); !fresh || fmt.Sprint(list) != "[wss://two.example.com]" {
		t.Errorf("after the swap: %v, %v", list, fresh)
	}
	if s := w.of("hello-strategy"); s.Running.Generation != 2 || s.Calls != 3 {
		t.Errorf("%+v", s)
	}
	w.remove("hello-strategy.wasm")
	w.look()
	if _, _, err := x.Call(t.Context(), guest.Step, nil, now); !errors.Is(err, ErrNoPlugin) {
		t.Errorf("without a strategy: %v", err)
	}
}

// TestReducerFailure asks a strategy what it cannot answer: the next call begins
// with the world as it is.
func TestReducerFailure(t *testing.T) {
	w := reducers(t)
	x := w.Reducer(manifest.WorldStrategy, relays{"wss://one.example.com"}.init)
	defer x.Close()
	if _, fresh, err := x.Call(t.Context(), guest.Step, nil, now); !fresh || err != nil {
		t.Fatalf("%v, %v", fresh, err)
	}
	_, _, err := x.Call(t.Context(), guest.Step, []byte{0xff}, now)
	if guest.AsFailure(err) == nil {
		t.Fatalf("garbage: %v", err)
	}
	answer, fresh, err := x.Call(t.Context(), guest.Step, []byte{0xff}, now)
	if err != nil || !fresh || len(connects(t, answer)) != 1 {
		t.Errorf("after a failure: %v, %v", fresh, err)
	}
	if s := w.of("hello-strategy"); s.Failures != 1 || s.LastFailure == "" {
		t.Errorf("%+v", s)
	}
}

// TestThrottle asks the throttle, and swaps it.
func TestThrottle(t *testing.T) {
	w := reducers(t)
	x := w.Reducer(manifest.WorldThrottle, nil)
	defer x.Close()
	delay := func() (int64, bool) {
		t.Helper()
		request := abi.AppendDelayRequest(nil, &abi.DelayRequest{
			Now: now * 1000, Subject: abi.Subject{Kind: abi.SubjectRepository, Name: repository}, EventKind: 30618,
		})
		answer, fresh, err := x.Call(t.Context(), guest.ThrottleDelay, request, now)
		if err != nil {
			t.Fatal(err)
		}
		got, err := abi.DecodeDelayAnswer(answer)
		if err != nil {
			t.Fatal(err)
		}
		return got.Delay, fresh
	}
	before, fresh := delay()
	if !fresh {
		t.Error("the first instance is not fresh")
	}
	w.change("hello-throttle.toml", []byte("[config]\ndelay_ms = 1234\n"))
	if after, fresh := delay(); after != 1234 || before == after || !fresh {
		t.Errorf("%d ms before the swap, %d after it", before, after)
	}
}

// TestShare has a plugin that would take the whole of a processor: over ten minutes it
// gets a fifth, and is warned about once a minute. One that takes a tenth never waits.
func TestShare(t *testing.T) {
	for _, test := range []struct {
		idle        time.Duration // between two steps of 100 ms
		least, most time.Duration // that it gets in ten minutes
		warnings    int
	}{
		{0, 2 * time.Minute, 2*time.Minute + reducerBurst + time.Second, 10},
		{900 * time.Millisecond, 59 * time.Second, 61 * time.Second, 0},
	} {
		begun := time.Unix(now, 0)
		at, s := begun, newShare(begun)
		var got time.Duration
		warnings := 0
		for at.Sub(begun) < 10*time.Minute {
			if wait := s.wait(at); wait > 0 {
				if s.warn(at) {
					warnings++
				}
				at = at.Add(wait)
				s.wait(at)
			}
			const step = 100 * time.Millisecond
			s.charge(step)
			got += step
			at = at.Add(step + test.idle)
		}
		if got < test.least || got > test.most || warnings != test.warnings {
			t.Errorf("it got %v of ten minutes, with %d warnings; want %v to %v and %d", got, warnings, test.least, test.most, test.warnings)
		}
	}
}
