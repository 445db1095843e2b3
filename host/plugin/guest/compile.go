package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"talon/host/plugin/meter"
)

const (
	compileTime = raceFactor * time.Minute

	// compileWorkers is two since wazero looks whether the context is done only if
	// there is more than one: between functions, each of which is bounded.
	compileWorkers = 2
)

// learnVersion lets wazero look up its own version. It keeps it in a variable
// that it does not guard, and modules load side by side.
var learnVersion = sync.OnceFunc(func() {
	ctx := context.Background()
	wazero.NewRuntimeWithConfig(ctx, compiler).Close(ctx)
})

func rewrite(file []byte) ([]byte, error) {
	wasm, err := Decompress(file)
	if err != nil {
		return nil, err
	}
	return meter.Rewrite(wasm, meter.Options{StartFuel: startFuel, MaxModule: maxModuleSize})
}

// compile makes a runtime with the module compiled: with what is kept of it, or with what
// came with the program, or else it is compiled, and kept.
func (m *Module) compile(ctx context.Context, wasm []byte, config wazero.RuntimeConfig, o *Options) error {
	learnVersion()
	if o.CacheDir == "" {
		metered, err := rewrite(wasm)
		if err == nil {
			m.runtime, m.compiled, err = compileModule(ctx, metered, config, o)
		}
		return err
	}
	dir := codeDir(o.CacheDir, o.SHA256)
	defer lockFolder(dir)()
	if found, err := m.load(ctx, dir, config); found || err != nil {
		return err
	}
	if o.Prepared != "" {
		found, err := unpackCode(preparedFile(o.Prepared, o.SHA256), dir)
		if err != nil {
			m.log.Warn("what came compiled with the program cannot be used", "module", m.name, "err", err)
		}
		if found {
			if found, err := m.load(ctx, dir, config); found || err != nil {
				return err
			}
		}
	}
	// What this refuses needs no other process.
	metered, err := rewrite(wasm)
	if err != nil {
		return err
	}
	if o.Elsewhere != nil {
		if err := o.Elsewhere(ctx); err != nil {
			return err
		}
		if found, err := m.load(ctx, dir, config); found || err != nil {
			return err
		}
	}
	if o.Elsewhere == nil {
		err = fillCode(dir, metered, func(module []byte, folder string) error { return compileInto(ctx, folder, module, config, o) })
		if err != nil && !fromDisk(err) {
			return err
		}
		if found, err := m.load(ctx, dir, config); found || err != nil {
			return err
		}
	}
	if err == nil {
		err = errors.New("nothing is kept")
	}
	// A full disk costs the next start its time, not this one its module.
	m.log.Warn("compiled plugin is not kept", "module", m.name, "err", err)
	m.runtime, m.compiled, err = compileModule(ctx, metered, config, o)
	return err
}

// fromDisk reports whether the system refused to read or write a file.
func fromDisk(err error) bool {
	return errors.As(err, new(*fs.PathError)) || errors.As(err, new(syscall.Errno))
}

// load compiles the module with what is kept of it. It reports whether it could, and
// removes what cannot be used.
func (m *Module) load(ctx context.Context, dir string, config wazero.RuntimeConfig) (found bool, err error) {
	c, err := openCode(dir)
	if c == nil {
		return false, err
	}
	runtime := wazero.NewRuntimeWithConfig(ctx, config.WithCompilationCache(c.cache))
	loading.Lock()
	before := executableMemory()
	compiled, err := runtime.CompileModule(ctx, c.shell)
	c.spans = without(executableMemory(), before)
	loading.Unlock()
	if err == nil && c.used() {
		c.shell = nil
		m.code, m.runtime, m.compiled = c, runtime, compiled
		return true, nil
	}
	return false, errors.Join(ctx.Err(), runtime.Close(ctx), c.close(ctx), removeCode(dir))
}

// compileInto compiles a module for the folder alone.
func compileInto(ctx context.Context, folder string, module []byte, config wazero.RuntimeConfig, o *Options) error {
	cache, err := wazero.NewCompilationCacheWithDir(folder)
	if err != nil {
		return err
	}
	runtime, _, err := compileModule(ctx, module, config.WithCompilationCache(cache), o)
	if runtime != nil {
		err = errors.Join(err, runtime.Close(ctx))
	}
	return errors.Join(err, cache.Close(ctx))
}

// compileModule makes a runtime with the module compiled. The runtime is there too if
// that fails.
func compileModule(ctx context.Context, module []byte, config wazero.RuntimeConfig, o *Options) (wazero.Runtime, wazero.CompiledModule, error) {
	runtime := wazero.NewRuntimeWithConfig(ctx, config)
	bounded, cancel := o.limited(experimental.WithCompilationWorkers(ctx, compileWorkers), compileTime, nil)
	defer cancel()
	loading.RLock()
	compiled, err := runtime.CompileModule(bounded, module)
	loading.RUnlock()
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case bounded.Err() != nil:
		err = fmt.Errorf("the module takes longer than %v to compile", compileTime)
	case err != nil:
		err = fmt.Errorf("compile: %w", brief{err})
	}
	return runtime, compiled, err
}
