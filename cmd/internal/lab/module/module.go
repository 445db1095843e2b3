// Package module makes strategies and throttles ready for the lab: .wasm files, run as the
// server runs them, and strategies of Go that run natively.
//
// Fuel bounds a call, as in the server. The bound of its time is far looser than there: a
// slow machine must not change a result.
package module

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"talon/cmd/internal/author"
	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/result"
	"talon/host/plugin/guest"
	"talon/sdk/abi/manifest"
	"talon/sdk/strategy"
)

// Native is a strategy of Go that runs without WebAssembly: it runs without fuel or a
// memory of its own, and takes a fifth of the time.
type Native struct {
	name  string
	text  string // manifest
	make  func() strategy.Strategy
	value map[string]any
}

// NewNative returns a strategy whose instances make returns, configured with values.
func NewNative(name, manifestText string, values map[string]any, make func() strategy.Strategy) *Native {
	return &Native{name, manifestText, make, values}
}

// About describes the strategy.
func (n *Native) About() result.Module { return result.Module{Name: n.name} }

// New creates an instance.
func (n *Native) New(context.Context) (engine.Instance, error) {
	m, err := manifest.Parse([]byte(n.text))
	if err != nil {
		return nil, err
	}
	settings, err := m.Resolve(n.value)
	if err != nil {
		return nil, err
	}
	s := n.make()
	if err := strategy.Configure(s, settings); err != nil {
		return nil, err
	}
	return &nativeInstance{s: s, call: strategy.NewCall(silent{})}, nil
}

type silent struct{}

func (silent) Log(strategy.Level, string) {}

type nativeInstance struct {
	s      strategy.Strategy
	call   *strategy.Call
	answer []byte
	ended  bool
}

var errEnded = errors.New("the strategy has ended")

func (i *nativeInstance) Call(_ context.Context, _ guest.Func, request []byte, _ int64) (answer []byte, _ int64, err error) {
	if i.ended {
		return nil, 0, errEnded
	}
	defer func() {
		if p := recover(); p != nil {
			i.ended = true
			answer, err = nil, fmt.Errorf("the strategy panicked: %v", p)
		}
	}()
	i.answer, err = i.call.Step(i.s, request, i.answer[:0])
	return i.answer, 0, err
}

func (i *nativeInstance) Memory() int64 { return 0 }
func (i *nativeInstance) Close()        { i.ended = true }

// Wasm is a module from a file.
type Wasm struct {
	source *author.Source
	config map[string]any
	module *guest.Module
	about  result.Module
}

// Options are the options of a module's run.
type Options struct {
	World     string         // that it must serve: manifest.WorldStrategy or WorldThrottle
	Config    map[string]any // over that of the side-car
	CacheDir  string         // keeps machine code; empty: the one that commands share
	Interpret bool           // without machine code, many times slower
	Instances int            // maximum at the same time
	Log       io.Writer      // what a compiler says
}

// Open reads a module, or builds the folder of one, and makes it ready.
func Open(ctx context.Context, path string, o Options) (*Wasm, error) {
	source, err := author.Find(ctx, path, "", o.Log)
	if err != nil {
		return nil, err
	}
	m := &Wasm{source: source, config: maps.Clone(source.Sidecar.Config)}
	if m.config == nil {
		m.config = map[string]any{}
	}
	maps.Copy(m.config, o.Config)
	if !slices.Contains(source.Manifest.Worlds, o.World) {
		return nil, fmt.Errorf("%s is no %s: its manifest says %s", path, o.World, strings.Join(source.Manifest.Worlds, ", "))
	}
	budgets := guest.BudgetsOf(&source.Sidecar.Budgets)
	budgets.Time = slowest
	load := author.Load
	if o.CacheDir != "" || o.Interpret {
		load = guest.Load
	}
	m.module, err = load(ctx, source.Wasm, guest.Options{
		Name: source.Manifest.Name, Grants: source.Sidecar.Grants, Config: m.config, Budgets: budgets,
		Limits:   guest.Limits{Time: slowest},
		CacheDir: o.CacheDir, Interpret: o.Interpret, Instances: max(1, o.Instances), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m.about = result.Module{Name: strings.TrimSuffix(filepath.Base(source.File), ".wasm"), SHA256: source.SHA256}
	for _, key := range slices.Sorted(maps.Keys(m.config)) {
		m.about.Config = append(m.about.Config, result.Setting{Key: key, Value: fmt.Sprint(m.config[key])})
	}
	return m, nil
}

// slowest bounds a call whose fuel is not used up.
const slowest = 10 * time.Minute

// About describes the module.
func (m *Wasm) About() result.Module { return m.about }

// Bytes returns the module as its file has it.
func (m *Wasm) Bytes() []byte { return m.source.Wasm }

// File returns the file of the module.
func (m *Wasm) File() string { return m.source.File }

// Manifest returns the manifest of the module.
func (m *Wasm) Manifest() *manifest.Manifest { return m.source.Manifest }

// New makes an instance.
func (m *Wasm) New(ctx context.Context) (engine.Instance, error) { return m.module.NewReducer(ctx) }

// Close ends the module.
func (m *Wasm) Close() error { return m.module.Close(context.Background()) }
