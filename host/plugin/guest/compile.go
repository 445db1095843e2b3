package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"talon/host/plugin/meter"
	"talon/internal/race"
	"talon/sdk/abi/manifest"
)

const (
	compileTime = race.Factor * time.Minute

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

// compile makes an engine: with what is kept of the module, or with what came with the program,
// or else it compiles the module, and keeps the code.
func (m *Module) compile(ctx context.Context, source Source, config wazero.RuntimeConfig, o *Options) (*engine, error) {
	learnVersion()
	if o.CacheDir == "" {
		wasm, err := source(ctx)
		if err != nil {
			return nil, err
		}
		metered, err := rewrite(wasm)
		if err != nil {
			return nil, err
		}
		return compileModule(ctx, metered, config, o)
	}
	dir := codeDir(o.CacheDir, o.SHA256)
	defer lockFolder(dir)()
	if e, err := loadEngine(ctx, dir, config); e != nil || err != nil {
		return e, err
	}
	if e, err := m.loadPrepared(ctx, dir, config, o); e != nil || err != nil {
		return e, err
	}
	wasm, err := source(ctx)
	if err != nil {
		return nil, err
	}
	// A module that fails here needs no other process.
	metered, err := rewrite(wasm)
	if err != nil {
		return nil, err
	}
	if o.Elsewhere != nil {
		err = o.Elsewhere(ctx, wasm)
	} else {
		err = fillCode(dir, metered, func(module []byte, folder string) error { return compileInto(ctx, folder, module, config, o) })
	}
	if err != nil && (o.Elsewhere != nil || !fromDisk(err)) {
		return nil, err
	}
	if err == nil {
		if e, err := loadEngine(ctx, dir, config); e != nil || err != nil {
			return e, err
		}
		err = errors.New("nothing is kept")
	}
	// A full disk costs the next start its time, not this one its module.
	m.log.Warn("compiled plugin is not kept", "module", m.name, "err", err)
	return compileModule(ctx, metered, config, o)
}

// loadPrepared fills the folder of the module with the code that came with the program, and does
// what loadEngine does.
func (m *Module) loadPrepared(ctx context.Context, dir string, config wazero.RuntimeConfig, o *Options) (*engine, error) {
	if o.Prepared == nil {
		return nil, nil
	}
	code, err := o.Prepared.Code(o.SHA256)
	if err == nil && code == nil {
		return nil, nil
	}
	if err == nil {
		err = unpackCode(code, dir)
	}
	if err != nil {
		m.log.Warn("what came compiled with the program cannot be used", "module", m.name, "err", err)
		return nil, nil
	}
	return loadEngine(ctx, dir, config)
}

// fromDisk reports whether the system refused to read or write a file.
func fromDisk(err error) bool {
	return errors.As(err, new(*fs.PathError)) || errors.As(err, new(syscall.Errno))
}

// loadEngine makes an engine with the code that is kept in the folder of a module. It returns nil
// if the folder has none that can be used here, and removes the folder then.
func loadEngine(ctx context.Context, dir string, config wazero.RuntimeConfig) (*engine, error) {
	c, err := openCode(dir)
	if c == nil {
		return nil, err
	}
	cache, err := wazero.NewCompilationCacheWithDir(filepath.Join(dir, codeFolder))
	if err != nil {
		return nil, fmt.Errorf("open the folder of compiled code: %w", err)
	}
	e := &engine{runtime: wazero.NewRuntimeWithConfig(ctx, config.WithCompilationCache(cache)), cache: cache, kept: dir}
	if e.compiled, err = e.runtime.CompileModule(ctx, c.shell); err == nil && c.used() {
		return e, nil
	}
	return nil, errors.Join(ctx.Err(), e.close(ctx), removeCode(dir))
}

// compileInto compiles a module for the folder alone.
func compileInto(ctx context.Context, folder string, module []byte, config wazero.RuntimeConfig, o *Options) error {
	cache, err := wazero.NewCompilationCacheWithDir(folder)
	if err != nil {
		return err
	}
	e, err := compileModule(ctx, module, config.WithCompilationCache(cache), o)
	if err == nil {
		err = e.close(ctx)
	}
	return errors.Join(err, cache.Close(ctx))
}

// compileModule makes an engine of a module that was metered.
func compileModule(ctx context.Context, module []byte, config wazero.RuntimeConfig, o *Options) (*engine, error) {
	e := &engine{runtime: wazero.NewRuntimeWithConfig(ctx, config)}
	bounded, cancel := o.limited(experimental.WithCompilationWorkers(ctx, compileWorkers), compileTime, nil)
	defer cancel()
	var err error
	e.compiled, err = e.runtime.CompileModule(bounded, module)
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case bounded.Err() != nil:
		err = fmt.Errorf("the module takes longer than %v to compile", compileTime)
	case err != nil:
		err = fmt.Errorf("compile: %w", brief{err})
	}
	if err != nil {
		return nil, cmpErr(err, e.close(context.WithoutCancel(ctx)))
	}
	return e, nil
}

// Decompress returns the module in a file, which may be compressed with zstd. The hash and
// the signature of a module are those of the file.
func Decompress(file []byte) (wasm []byte, err error) {
	wasm = file
	if bytes.HasPrefix(file, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxModuleSize))
		if err != nil {
			return nil, err
		}
		defer r.Close()
		wasm, err = r.DecodeAll(file, nil)
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
			return nil, fmt.Errorf("the module has more than %d bytes when it is decompressed", maxModuleSize)
		}
		if err != nil {
			return nil, fmt.Errorf("decompress the module: %w", err)
		}
	}
	if len(wasm) > maxModuleSize {
		return nil, fmt.Errorf("the module has %d bytes; the limit is %d", len(wasm), maxModuleSize)
	}
	return wasm, nil
}

// ReadManifest returns the manifest of the module that a file holds.
func ReadManifest(file []byte) (*manifest.Manifest, error) {
	wasm, err := Decompress(file)
	if err != nil {
		return nil, err
	}
	return manifest.FromModule(wasm)
}

// writeWhole writes a file; others see all of it or nothing.
func writeWhole(file string, data []byte) error {
	if err := os.WriteFile(file+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
