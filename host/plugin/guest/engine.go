package guest

import (
	"context"
	"fmt"
	"sync"

	"github.com/tetratelabs/wazero"

	"talon/sdk/abi"
)

// engine is the machine code of a module in memory, and the runtime in which its instances run.
type engine struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	cache    wazero.CompilationCache // that the code comes from; nil: from none
	kept     string                  // folder with the code; empty: nothing is kept
	imports  []string                // capabilities that the module imports
}

// close frees the engine. wazero frees the machine code when the garbage collector finds it.
func (e *engine) close(ctx context.Context) error {
	var err error
	if e.runtime != nil {
		err = e.runtime.Close(ctx)
	}
	if e.cache != nil {
		err = cmpErr(err, e.cache.Close(ctx))
	}
	return err
}

// engines has the engine of one module. Instances hold it. An engine that none holds can be
// unloaded, if open is there to load it again.
type engines struct {
	mu     sync.Mutex // guards the fields below
	engine *engine    // nil: it is not loaded
	users  int        // instances that hold it
	open   func(ctx context.Context) (*engine, error)
}

// hold returns the engine for one instance, until drop. It loads the engine if it is not there.
func (s *engines) hold(ctx context.Context) (*engine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine == nil && s.open == nil {
		return nil, errClosed
	}
	if s.engine == nil {
		// Others wait for the same engine: it does not depend on the first caller's patience.
		e, err := s.open(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}
		s.engine = e
	}
	s.users++
	return s.engine, nil
}

func (s *engines) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
}

// unload closes the engine if no instance holds it, and reports whether it did.
func (s *engines) unload(ctx context.Context) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users > 0 || !s.loaded() {
		return false, nil
	}
	return true, s.closeEngine(ctx)
}

// close closes the engine, held or not. hold returns an error afterwards.
func (s *engines) close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = nil
	return s.closeEngine(ctx)
}

// closeEngine closes the engine if it is loaded. REQUIRES: mu.
func (s *engines) closeEngine(ctx context.Context) error {
	e := s.engine
	s.engine = nil
	if e == nil {
		return nil
	}
	return e.close(ctx)
}

// loaded reports whether the engine is in memory. REQUIRES: mu.
func (s *engines) loaded() bool { return s.engine != nil }

// openEngine compiles the module, or loads what is kept of it, audits it, and offers it the host
// functions that it may import.
func (m *Module) openEngine(ctx context.Context, source Source, kind wazero.RuntimeConfig, o *Options) (*engine, error) {
	const page = 64 << 10
	config := kind.
		WithMemoryLimitPages(uint32(max(min(m.budgets.Memory/page, 65535), 1))).
		WithDebugInfoEnabled(false)
	e, err := m.compile(ctx, source, config, o)
	if err != nil {
		return nil, err
	}
	if e.imports, err = m.audit(e.compiled, o.Grants); err == nil {
		err = offer(ctx, e.runtime, e.imports)
	}
	if err != nil {
		return nil, cmpErr(err, e.close(context.WithoutCancel(ctx)))
	}
	return e, nil
}

// offer defines the host functions that the module may import.
func offer(ctx context.Context, runtime wazero.Runtime, imports []string) error {
	own := runtime.NewHostModuleBuilder(abi.ImportModule)
	for _, name := range imports {
		define(own, name, capabilities[name], true)
	}
	if _, err := own.Instantiate(ctx); err != nil {
		return fmt.Errorf("offer host functions: %w", err)
	}
	system := runtime.NewHostModuleBuilder(wasiModule)
	for name, f := range wasi {
		define(system, name, f, false)
	}
	if _, err := system.Instantiate(ctx); err != nil {
		return fmt.Errorf("offer WASI: %w", err)
	}
	return nil
}

// unloadIdle makes the host unload the module when nobody has called it for a while, and load it
// with the next call. It needs the code that is kept, and the module again in case that is lost.
func (m *Module) unloadIdle(kind wazero.RuntimeConfig, o Options) {
	if m.kept == "" || o.Source == nil {
		return
	}
	m.engines.reopen(func(ctx context.Context) (*engine, error) {
		e, err := m.openEngine(ctx, o.Source, kind, &o)
		if err != nil {
			return nil, &reloadError{m.name, err}
		}
		m.log.Debug("a plugin is loaded again", "module", m.name)
		return e, nil
	})
	m.pool.keepNone(func() {
		if unloaded, err := m.engines.unload(context.Background()); unloaded {
			m.log.Debug("a plugin that nobody calls is unloaded", "module", m.name, "err", err)
		}
	})
}

// reopen has hold load the engine with a function where it is not loaded.
func (s *engines) reopen(open func(ctx context.Context) (*engine, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = open
}

// reloadError says why a module cannot be loaded again. The host failed, and not the module.
type reloadError struct {
	module string
	err    error
}

func (e *reloadError) Error() string { return fmt.Sprintf("load plugin %s again: %v", e.module, e.err) }

func (e *reloadError) Unwrap() error { return e.err }
