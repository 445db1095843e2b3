package guest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"

	"talon/host"
	"talon/host/plugin/state"
	"talon/internal/race"
	"talon/sdk/abi/manifest"
)

// selfTestTime bounds the whole of a self-test.
const selfTestTime = race.Factor * time.Minute

// testService is how the relay of a self-test is reached, whatever relay the module is
// for: what it has passed, it has passed everywhere.
var testService = host.Service{Domain: manifest.VectorDomain, PRs: true}

var errSelfTestTime = fmt.Errorf("self-test: it takes longer than %v", selfTestTime)

// Tested reports whether it is kept that the module, as it is configured, has passed
// [SelfTest].
func (m *Module) Tested() bool { return m.kept != "" && newSelfTestStamp(m.kept, m).exists() }

// SelfTest runs the module's own vectors and some requests of the host's, by
// wazero's compiler and by its interpreter. Both must give the same answer for the
// same fuel, no call may fail, and the vectors must be answered as they want. The
// module sees an empty relay, or what its vector holds, and remembers nothing
// afterwards.
//
// Its relay is always the same one, and not that of the options. An error is one
// sentence. [Options.CacheDir] keeps which modules have passed
// with which configuration.
func SelfTest(ctx context.Context, wasm []byte, o Options) error {
	o.setDefaults(wasm)
	log := o.Log
	o.Instances, o.Metrics, o.Log, o.Held, o.Git = 1, NewMetrics(), slog.New(slog.DiscardHandler), nil, nil
	o.Sets = &recording{sets: o.Sets}
	o.Service = testService
	m, err := prepare(wasm, &o)
	if err != nil {
		return err
	}
	var mark selfTestStamp
	if o.CacheDir != "" {
		mark = newSelfTestStamp(codeDir(o.CacheDir, o.SHA256), m)
	}
	if mark.exists() {
		return nil
	}
	tests, err := m.selfTests(o.Sets)
	if err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	if o.Elsewhere != nil && o.CacheDir != "" {
		return o.Elsewhere(ctx, wasm)
	}
	ctx, cancel := o.limited(ctx, selfTestTime, errSelfTestTime)
	defer cancel()
	compiled, err := m.trial(ctx, wasm, compiler, o, tests)
	if err != nil {
		return err
	}
	if m, err = prepare(wasm, &o); err != nil {
		return err
	}
	interpreted, err := m.interpret(ctx, wasm, o, tests)
	if err != nil {
		return fmt.Errorf("by the interpreter: %w", err)
	}
	for i := range tests {
		if err := compiled[i].differs(interpreted[i]); err != nil {
			return fmt.Errorf("self-test: %s: %w", tests[i].name, err)
		}
	}
	// A full disk costs the next start its time, not this one its module.
	if err := mark.write(); err != nil {
		log.Warn("it is not kept that a plugin passed its self-test", "module", m.name, "err", err)
	}
	return nil
}

// Engines of wazero. Only the interpreter looks whether the context is done: it
// is so slow that fuel does not bound its time well enough.
var (
	compiler    = wazero.NewRuntimeConfigCompiler()
	interpreter = wazero.NewRuntimeConfigInterpreter().WithCloseOnContextDone(true)
)

// outcome is what came of a test.
type outcome struct {
	answer []byte
	fuel   int64
}

func (o outcome) differs(other outcome) error {
	switch {
	case !bytes.Equal(o.answer, other.answer):
		return fmt.Errorf("compiled code answers %.40x, the interpreter %.40x", o.answer, other.answer)
	case o.fuel != other.fuel:
		return fmt.Errorf("compiled code spends %d fuel, the interpreter %d", o.fuel, other.fuel)
	}
	return nil
}

// interpret runs the tests by the interpreter. The end of ctx stops the guest.
func (m *Module) interpret(ctx context.Context, wasm []byte, o Options, tests []*selfTest) ([]outcome, error) {
	o.CacheDir, m.bound = "", ctx
	return m.trial(ctx, wasm, interpreter, o, tests)
}

// trial runs the tests by one engine and closes the module.
func (m *Module) trial(ctx context.Context, wasm []byte, engine wazero.RuntimeConfig, o Options, tests []*selfTest) ([]outcome, error) {
	defer m.release(context.WithoutCancel(ctx))
	if err := m.resetState(ctx); err != nil {
		return nil, err
	}
	if err := m.start(ctx, wasm, engine, o); err != nil {
		return nil, stopped(ctx, err)
	}
	// The host's probes come one after the other to the first instance.
	inst, err := m.pool.get(ctx, atOnce)
	if err != nil {
		return nil, stopped(ctx, err)
	}
	defer func() {
		if inst != nil {
			inst.close()
		}
	}()
	outcomes := make([]outcome, len(tests))
	for i, test := range tests {
		err := ctx.Err()
		if err == nil && test.vector != nil && !test.vector.Then {
			inst.close()
			inst, err = m.newTestInstance(ctx, test)
		}
		if err == nil {
			outcomes[i], err = m.try(ctx, test, inst)
		}
		if err != nil && !errors.As(err, new(unwanted)) {
			err = fmt.Errorf("%s: %w", test.name, err)
		}
		if err != nil {
			return nil, stopped(ctx, fmt.Errorf("self-test: %w", err))
		}
	}
	return outcomes, nil
}

// stopped returns why a test was stopped, err if it was not.
func stopped(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// resetState gives the module a memory with nothing in it.
func (m *Module) resetState(ctx context.Context) error {
	memory, err := state.Open(ctx, nil, state.Options{})
	if err != nil {
		return err
	}
	m.state = memory.Of(m.name)
	return nil
}

// newTestInstance makes an instance for a vector, which remembers nothing.
func (m *Module) newTestInstance(ctx context.Context, test *selfTest) (*instance, error) {
	if err := m.resetState(ctx); err != nil {
		return nil, err
	}
	m.config = test.config
	return newInstance(ctx, m)
}

// try runs one test by the instance that is given.
func (m *Module) try(ctx context.Context, test *selfTest, inst *instance) (outcome, error) {
	if test.vector != nil {
		m.sets = test.sets
	}
	inst.call.begin(ctx, test.facts, test.now, 0)
	defer inst.call.end()
	answer, fuel, err := inst.ask(test.function, test.request)
	if err == nil && test.function.policy() {
		err = inst.call.err
	}
	if err == nil {
		err = inst.judge(test, answer)
	}
	return outcome{bytes.Clone(answer), fuel}, err
}

// judge checks an answer: any that makes sense, of a vector the one that it wants.
func (inst *instance) judge(test *selfTest, answer []byte) error {
	if !test.function.policy() {
		if err := test.decode(answer); err != nil {
			return &Failure{Cause: CauseGarbage, what: "answered with garbage", err: err}
		}
		if test.vector == nil {
			return nil
		}
		if err := test.vector.CheckAnswer(answer); err != nil {
			return unwanted{err}
		}
		return nil
	}
	if err := inst.view.Decode(answer); err != nil {
		return &Failure{Cause: CauseGarbage, what: "answered with garbage", err: err}
	}
	ruling, _, failure := inst.ruling(test.function, &inst.view, "")
	if failure != nil {
		return failure
	}
	if test.vector == nil {
		return nil
	}
	if err := test.vector.Check(inst.view.Action, string(inst.view.Rule), string(inst.view.Reason)); err != nil {
		return unwanted{err}
	}
	var keys []manifest.Key
	for i := range inst.view.NumKeys() {
		keys = append(keys, inst.view.Key(i))
	}
	if err := test.vector.CheckAudience(keys, string(inst.view.Set)); err != nil {
		return unwanted{err}
	}
	if err := test.vector.CheckWake(ruling.Wake, ruling.Wait); err != nil {
		return unwanted{err}
	}
	if err := test.vector.CheckLimits(inst.view.MaxAuthorBytes, inst.view.MaxRepositoryBytes, inst.view.End); err != nil {
		return unwanted{err}
	}
	return nil
}

// unwanted is an answer that a vector does not want. The error names the vector.
type unwanted struct{ error }

const (
	// testsVersion changes when what is tested does.
	testsVersion = 3

	stampFile = "passed"
	maxStamps = 16 // configurations of one module
)

// selfTestStamp records that a module has passed its self-test. It is a line in a file in
// the folder of the compiled code, and is deleted with it.
type selfTestStamp struct {
	path string // empty: nothing is kept
	line string
}

// newSelfTestStamp is that of a module in the folder of its code.
func newSelfTestStamp(dir string, m *Module) selfTestStamp {
	limits := fmt.Sprint(testsVersion, m.budgets, m.limits)
	return selfTestStamp{
		path: filepath.Join(dir, stampFile),
		line: fmt.Sprintf("%x", sha256.Sum256(append([]byte(limits), m.testConfig...))),
	}
}

// lines are those that are there.
func (k selfTestStamp) lines() []string {
	text, err := os.ReadFile(k.path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

func (k selfTestStamp) exists() bool {
	return k.path != "" && slices.Contains(k.lines(), k.line)
}

// write adds the mark atomically: after a crash the old file is there.
func (k selfTestStamp) write() error {
	if k.path == "" {
		return nil
	}
	lines := append([]string{k.line}, k.lines()...)
	text := strings.Join(lines[:min(len(lines), maxStamps)], "\n")
	return writeWhole(k.path, []byte(text))
}
