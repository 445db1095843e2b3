package guest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/host/plugin/wasmtest"
	"talon/internal/race"
	"talon/sdk/abi"
)

const (
	resultAddr = 3072
	i64Store   = 0x37
)

// result calls the host function once in a decision and returns its result.
func (h hostCall) result(t *testing.T, message []byte, change func(*Options)) (result int64, answer []byte, err error) {
	t.Helper()
	return h.resultOf(t, message, change, &fakeFacts{})
}

func (h hostCall) resultOf(t *testing.T, message []byte, change func(*Options), facts host.Facts) (result int64, answer []byte, err error) {
	t.Helper()
	store := wasmtest.I32Store
	if h.typ.Results[0] == wasmtest.I64 {
		store = wasmtest.Mem(i64Store, 3, 0)
	}
	g := guest{
		manifest: withCapabilities(h.name), imports: imported(abi.ImportModule, h.name, typeExtra), message: message,
		admit:  wasmtest.Body(consts(resultAddr), h.args, wasmtest.Call(0), store, wasmtest.I64Const(0)),
		change: func(m *wasmtest.Module) { m.Types = append(m.Types, h.typ) },
	}
	m := mustLoad(t, g.assemble(), change)
	_, _, err = m.Rule(t.Context(), Admit, nil, facts, now, "client")
	if AsFailure(err) != nil {
		return 0, nil, err
	}
	inst, poolErr := m.pool.get(t.Context(), atOnce)
	if poolErr != nil {
		t.Fatal(poolErr)
	}
	defer m.pool.put(inst)
	raw, _ := inst.memory.Read(resultAddr, 8)
	answer, _ = inst.memory.Read(scratchAddr, 64)
	if h.typ.Results[0] == wasmtest.I64 {
		return int64(binary.LittleEndian.Uint64(raw)), answer, err
	}
	return int64(int32(binary.LittleEndian.Uint32(raw))), answer, err
}

// fakeGit has one repository with one object and one ref.
type fakeGit struct{ err error }

var (
	repo   = host.Address{Kind: 30617, PubKey: host.PubKey{7}, D: "talon"}
	object = strings.Repeat("ab", 20)
)

func (g fakeGit) Has(_ context.Context, r host.Address, o string) (bool, error) {
	return r == repo && (o == object || o == object+abi.OfCommit || o == ""), g.err
}

func (g fakeGit) Ref(_ context.Context, r host.Address, ref string) (string, bool, error) {
	return object, r == repo && ref == "refs/heads/main", g.err
}

type fakeHeld map[host.ID][]byte

func (h fakeHeld) Held(_ context.Context, id host.ID) ([]byte, error) { return h[id], nil }

func (h fakeHeld) HeldBy(_ context.Context, f host.Filter) (found [][]byte, err error) {
	for _, id := range f.IDs {
		if text := h[id]; text != nil {
			found = append(found, text)
		}
	}
	return found, nil
}

func TestHostFunctions(t *testing.T) {
	get, set := funcType(wasmtest.I32, 4), funcType(wasmtest.I32, 4, wasmtest.I64)
	incr, take := funcType(wasmtest.I64, 2, wasmtest.I64, wasmtest.I64), funcType(wasmtest.I64, 4, wasmtest.I64)
	six := funcType(wasmtest.I32, 6)
	held, limit := string(abi.AppendFilter(nil, &abi.Filter{IDs: [][32]byte{{}}})), string(abi.AppendFilter(nil, &abi.Filter{Limit: 7}))
	text := repo.String() + object + "refs/heads/main" + "refs/heads/no" + "30618" + held + limit + object + abi.OfCommit
	at := func(s string) (addr, length int32) {
		return int32(messageAddr + strings.Index(text, s)), int32(len(s))
	}
	repoAt, repoLen := at(repo.String())
	objectAt, objectLen := at(object)
	mainAt, mainLen := at("refs/heads/main")
	noAt, noLen := at("refs/heads/no")
	heldAt, heldLen := at(held)
	limitAt, limitLen := at(limit)
	commitAt, commitLen := at(object + abi.OfCommit)
	with := func(code wasmtest.Code, more ...wasmtest.Code) wasmtest.Code {
		return wasmtest.Body(append([]wasmtest.Code{code}, more...)...)
	}
	full := func(o *Options) {
		o.State, o.Git = newState(t), fakeGit{}
		o.State.Set([]byte(object), []byte("value"), 0, now)
		o.Sets = VectorSets{object: {repo.String(), strings.Repeat("00", 32)}}
		o.Held = fakeHeld{{}: storedJSON(t)}
	}
	broken := func(o *Options) { o.Git = fakeGit{errors.New("no disk")} }
	nothing := func(*Options) {}
	for _, test := range []struct {
		name   string
		call   hostCall
		with   func(*Options)
		want   int64
		answer string
	}{
		{"kv.get", hostCall{abi.CapKVGet, get, consts(objectAt, objectLen, scratchAddr, 64)}, full, 5, "value"},
		{"kv.get with too small a buffer", hostCall{abi.CapKVGet, get, consts(objectAt, objectLen, scratchAddr, 4)}, full, 5, "\x00"},
		{"kv.get of nothing", hostCall{abi.CapKVGet, get, consts(mainAt, mainLen, scratchAddr, 64)}, full, abi.NotFound, ""},
		{"kv.get without state", hostCall{abi.CapKVGet, get, consts(objectAt, objectLen, scratchAddr, 64)}, nothing, abi.NotFound, ""},
		{"kv.get of too long a key", hostCall{abi.CapKVGet, get, consts(0, abi.MaxKey+1, scratchAddr, 64)}, full, abi.NotFound, ""},
		{"kv.set", hostCall{abi.CapKVSet, set, with(consts(mainAt, mainLen, 0, 100), wasmtest.I64Const(60))}, full, 0, ""},
		{"kv.set without state", hostCall{abi.CapKVSet, set, with(consts(mainAt, mainLen, 0, 100), wasmtest.I64Const(60))}, nothing, abi.NoRoom, ""},
		{"kv.set of too much", hostCall{abi.CapKVSet, set, with(consts(mainAt, mainLen, 0, abi.MaxValue+1), wasmtest.I64Const(0))}, full, abi.NoRoom, ""},
		{"kv.set of too long a key", hostCall{abi.CapKVSet, set, with(consts(0, abi.MaxKey+1, 0, 1), wasmtest.I64Const(0))}, full, abi.NoRoom, ""},
		{"kv.incr", hostCall{abi.CapKVIncr, incr, with(consts(mainAt, mainLen), wasmtest.I64Const(-7), wasmtest.I64Const(0))}, full, -7, ""},
		{"kv.incr without state", hostCall{abi.CapKVIncr, incr, with(consts(mainAt, mainLen), wasmtest.I64Const(9), wasmtest.I64Const(0))}, nothing, 9, ""},
		{"kv.incr of too long a key", hostCall{abi.CapKVIncr, incr, with(consts(0, abi.MaxKey+1), wasmtest.I64Const(math.MinInt64), wasmtest.I64Const(0))}, full, math.MinInt64, ""},
		{"bucket.take", hostCall{abi.CapBucketTake, take, with(consts(mainAt, mainLen, 5, 5), wasmtest.I64Const(1000))}, full, 0, ""},
		{"bucket.take of more than it holds", hostCall{abi.CapBucketTake, take, with(consts(mainAt, mainLen, 6, 5), wasmtest.I64Const(1000))}, full, abi.Never, ""},
		{"bucket.take of a great number", hostCall{abi.CapBucketTake, take, with(consts(mainAt, mainLen, -1, 5), wasmtest.I64Const(1000))}, full, abi.Never, ""},
		{"bucket.take without state", hostCall{abi.CapBucketTake, take, with(consts(mainAt, mainLen, 5, 5), wasmtest.I64Const(1000))}, nothing, 0, ""},
		{"bucket.take of more than it holds without state", hostCall{abi.CapBucketTake, take, with(consts(mainAt, mainLen, 6, 5), wasmtest.I64Const(1000))}, nothing, abi.Never, ""},
		{"bucket.take of too long a key", hostCall{abi.CapBucketTake, take, with(consts(0, abi.MaxKey+1, 1, 5), wasmtest.I64Const(1000))}, full, abi.Never, ""},
		{"sets.contains", hostCall{abi.CapSetsContains, get, consts(objectAt, objectLen, repoAt, repoLen)}, full, 1, ""},
		{"sets.contains of a key", hostCall{abi.CapSetsContains, get, consts(objectAt, objectLen, 0, 32)}, full, 1, ""},
		{"sets.contains of a stranger", hostCall{abi.CapSetsContains, get, consts(objectAt, objectLen, mainAt, mainLen)}, full, 0, ""},
		{"sets.contains of all of memory", hostCall{abi.CapSetsContains, get, consts(objectAt, objectLen, 0, 4<<16)}, full, 0, ""},
		{"sets.contains of no set", hostCall{abi.CapSetsContains, get, consts(mainAt, mainLen, mainAt, mainLen)}, full, abi.NotFound, ""},
		{"sets.contains without sets", hostCall{abi.CapSetsContains, get, consts(objectAt, objectLen, repoAt, repoLen)}, nothing, abi.NotFound, ""},
		{"git.has", hostCall{abi.CapGitHas, get, consts(repoAt, repoLen, objectAt, objectLen)}, full, 1, ""},
		{"git.has of another", hostCall{abi.CapGitHas, get, consts(repoAt, repoLen, objectAt+2, objectLen)}, full, 0, ""},
		{"git.has of no object", hostCall{abi.CapGitHas, get, consts(repoAt, repoLen, objectAt, 39)}, full, 0, ""},
		{"git.has of no repository", hostCall{abi.CapGitHas, get, consts(objectAt, objectLen, objectAt, objectLen)}, full, 0, ""},
		{"git.has of a commit", hostCall{abi.CapGitHas, get, consts(repoAt, repoLen, commitAt, commitLen)}, full, 1, ""},
		{"git.has of something else", hostCall{abi.CapGitHas, get, consts(repoAt, repoLen, commitAt+40, commitLen-40)}, full, 0, ""},
		{"git.has of half a question", hostCall{abi.CapGitHas, get, consts(repoAt, repoLen, commitAt, commitLen-1)}, full, 0, ""},
		{"git.has of the repository", hostCall{abi.CapGitHas, get, consts(repoAt, repoLen, objectAt, 0)}, full, 1, ""},
		{"git.has of a repository elsewhere", hostCall{abi.CapGitHas, get, consts(repoAt, repoLen-1, objectAt, 0)}, full, 0, ""},
		{"git.has of the repository without git", hostCall{abi.CapGitHas, get, consts(repoAt, repoLen, objectAt, 0)}, nothing, 0, ""},
		{"git.has without git", hostCall{abi.CapGitHas, get, consts(repoAt, repoLen, objectAt, objectLen)}, nothing, 0, ""},
		{"git.has with a broken disk", hostCall{abi.CapGitHas, get, consts(repoAt, repoLen, objectAt, objectLen)}, broken, abi.Unavailable, ""},
		{"git.ref", hostCall{abi.CapGitRef, six, consts(repoAt, repoLen, mainAt, mainLen, scratchAddr, 64)}, full, 40, object},
		{"git.ref of another", hostCall{abi.CapGitRef, six, consts(repoAt, repoLen, noAt, noLen, scratchAddr, 64)}, full, abi.NotFound, ""},
		{"git.ref without git", hostCall{abi.CapGitRef, six, consts(repoAt, repoLen, mainAt, mainLen, scratchAddr, 64)}, nothing, abi.NotFound, ""},
		{"git.ref with a broken disk", hostCall{abi.CapGitRef, six, consts(repoAt, repoLen, mainAt, mainLen, scratchAddr, 64)}, broken, abi.Unavailable, ""},
		{"held.get", hostCall{abi.CapHeldGet, funcType(wasmtest.I32, 3), consts(0, scratchAddr, 1000)}, full,
			int64(len(appendEvent(nil, item(1, "stored").Event, false))), "\x0a\x20\x01"},
		{"held.query", hostCall{abi.CapHeldQuery, get, consts(heldAt, heldLen, scratchAddr, 1000)}, full,
			int64(len(appendEvent(nil, item(1, "stored").Event, true))), "\x0a"},
		{"held.query of nothing", hostCall{abi.CapHeldQuery, get, consts(limitAt, limitLen, scratchAddr, 1000)}, full, 0, ""},
		{"held.query without purgatory", hostCall{abi.CapHeldQuery, get, consts(heldAt, heldLen, scratchAddr, 1000)}, nothing, 0, ""},
		{"held.get without purgatory", hostCall{abi.CapHeldGet, funcType(wasmtest.I32, 3), consts(0, scratchAddr, 1000)}, nothing, abi.NotFound, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, answer, err := test.call.result(t, []byte(text), test.with)
			if (err != nil) != (test.want == abi.Unavailable) {
				t.Fatal(err)
			}
			if got != test.want || !strings.HasPrefix(string(answer), test.answer) {
				t.Errorf("%d with %.20q, want %d with %q", got, answer, test.want, test.answer)
			}
		})
	}
}

// TestStateBytesAreCounted writes more in one call than host functions may move.
func TestStateBytesAreCounted(t *testing.T) {
	set := hostCall{abi.CapKVSet, funcType(wasmtest.I32, 4, wasmtest.I64), wasmtest.Body(consts(0, 8, 0, 60_000), wasmtest.I64Const(0))}
	for calls, fails := range map[int]bool{69: false, 70: true} {
		m := mustLoad(t, set.guest(calls).assemble(), func(o *Options) { o.State = newState(t) })
		_, err := ask(t, m, item(1, ""), nil)
		if f := AsFailure(err); (f != nil && f.Cause == CauseBytes) != fails {
			t.Errorf("%d values of 60 kB: %v, want a failure: %v", calls, err, fails)
		}
	}
}

// ownMetric is a call of metric with the name at messageAddr.
func ownMetric(kind, length int32, value float64) hostCall {
	return hostCall{abi.CapMetric, funcType(0, 3, wasmtest.F64), wasmtest.Body(consts(kind, messageAddr, length), wasmtest.F64Const(value))}
}

func TestOwnMetrics(t *testing.T) {
	all := NewMetrics()
	share := func(o *Options) { o.Metrics = all }
	for range 2 {
		m := mustLoad(t, ownMetric(abi.MetricCounter, 7, 1.5).guest(2).assemble(), share)
		admit(t, m, item(1, ""))
		m = mustLoad(t, ownMetric(abi.MetricGauge, 7, -2).guest(1).assemble(), share)
		admit(t, m, item(1, ""))
	}
	if n := testutil.ToFloat64(all.counters.WithLabelValues("guest", "authors")); n != 6 {
		t.Errorf("the counter is %v, want 6: four times 1.5 over two generations", n)
	}
	if n := testutil.ToFloat64(all.gauges.WithLabelValues("guest", "authors")); n != -2 {
		t.Errorf("the gauge is %v, want -2", n)
	}
}

func TestBadOwnMetricsFail(t *testing.T) {
	for name, call := range map[string]hostCall{
		"negative counter": ownMetric(abi.MetricCounter, 7, -1),
		"not a number":     ownMetric(abi.MetricGauge, 7, math.NaN()),
		"infinite":         ownMetric(abi.MetricCounter, 7, math.Inf(1)),
		"empty name":       ownMetric(abi.MetricCounter, 0, 1),
		"name with zeros":  ownMetric(abi.MetricCounter, 8, 1),
		"long name":        ownMetric(abi.MetricCounter, 1000, 1),
		"unknown kind":     ownMetric(2, 7, 1),
	} {
		_, err := ask(t, mustLoad(t, call.guest(1).assemble(), nil), item(1, ""), nil)
		if f := AsFailure(err); f == nil || f.Cause != CauseHost || !errors.Is(err, errArgument) {
			t.Errorf("%s: %v, want a failure by %s", name, err, CauseHost)
		}
	}
}

// TestNamesOfOwnMetricsAreBounded runs modules whose names of metrics begin with
// a part of the event, in many generations of a plugin.
func TestNamesOfOwnMetricsAreBounded(t *testing.T) {
	const idAt = bufferAddr + 2 + 1 + 2
	call := hostCall{abi.CapMetric, funcType(0, 3, wasmtest.F64), wasmtest.Body(consts(abi.MetricCounter, idAt, 8), wasmtest.F64Const(1))}
	all := NewMetrics()
	for generation := range 8 {
		m := mustLoad(t, call.guest(1).assemble(), func(o *Options) { o.Metrics = all })
		for i := range maxValues + 1 {
			it := item(1, "")
			copy(it.Event.ID[:], fmt.Sprintf("name%d%03d", generation, i))
			if _, err := ask(t, m, it, nil); (AsFailure(err) != nil) != (i == maxValues) {
				t.Errorf("generation %d, name %d: %v", generation, i, err)
			}
		}
	}
	if n := testutil.CollectAndCount(all.counters); n != maxMetricValues {
		t.Errorf("%d series, want %d", n, maxMetricValues)
	}
}

func TestHostFunctionsAllocateNothing(t *testing.T) {
	if race.Detector {
		t.Skip("allocations cannot be counted under the race detector")
	}
	for _, call := range hostCalls {
		switch call.name {
		case abi.CapStoreGet, abi.CapHeldGet, abi.CapKVIncr: // these parse an event, or store a new value
			continue
		}
		m := mustLoad(t, call.guest(10).assemble(), func(o *Options) {
			o.State, o.Sets = newState(t), VectorSets{"authors": nil}
			o.State.Set(make([]byte, 32), []byte("value"), 0, now)
		})
		ctx := t.Context()
		if n := testing.AllocsPerRun(100, func() { m.Rule(ctx, Admit, nil, nil, now, "client") }); n != 0 {
			t.Errorf("%s: %v allocations in 10 calls, want 0", call.name, n)
		}
	}
}
