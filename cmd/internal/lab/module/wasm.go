package module

import (
	"context"
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
)

// Wasm is a module from a file.
type Wasm struct {
	source *author.Source
	config map[string]any
	module *guest.Module
	about  result.Module
}

// Options says how a module runs.
type Options struct {
	World     string         // that it must serve: manifest.WorldStrategy or WorldThrottle
	Config    map[string]any // over that of the side-car
	CacheDir  string         // keeps machine code; empty: the one that commands share
	Interpret bool           // without machine code, many times slower
	Instances int            // at once
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

// About says what the module is.
func (m *Wasm) About() result.Module { return m.about }

// Manifest is that of the module.
func (m *Wasm) Manifest() *manifest.Manifest { return m.source.Manifest }

// New makes an instance.
func (m *Wasm) New(ctx context.Context) (engine.Instance, error) { return m.module.NewReducer(ctx) }

// Close ends the module.
func (m *Wasm) Close() error { return m.module.Close(context.Background()) }
