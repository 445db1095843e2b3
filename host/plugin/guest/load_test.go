package guest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"talon/host"
	"talon/host/plugin/wasmtest"
	"talon/sdk/abi"
)

// drop removes an export.
func drop(name string) func(*wasmtest.Module) {
	return func(m *wasmtest.Module) {
		for i, e := range m.Exports {
			if e.Name == name {
				m.Exports = append(m.Exports[:i], m.Exports[i+1:]...)
				return
			}
		}
	}
}

// rename gives an export another name.
func rename(from, to string) func(*wasmtest.Module) {
	return func(m *wasmtest.Module) {
		for i := range m.Exports {
			if m.Exports[i].Name == from {
				m.Exports[i].Name = to
			}
		}
	}
}

// point makes an export name another function.
func point(name string, index uint32) func(*wasmtest.Module) {
	return func(m *wasmtest.Module) {
		for i := range m.Exports {
			if m.Exports[i].Name == name {
				m.Exports[i].Index = index
			}
		}
	}
}

// TestBadModulesAreRefused loads modules that are wrong in one way each, beside those of
// the corpus ([TestCorpus]). All must be refused with a sentence.
func TestBadModulesAreRefused(t *testing.T) {
	good := guest{}.assemble()
	manifest := func(text string) []byte { return guest{manifest: text}.assemble() }
	for _, test := range []struct {
		name string
		wasm []byte
		want string
	}{
		{"truncated header", good[:6], "not a WebAssembly module"},
		{"garbage after the header", append([]byte("\x00asm\x01\x00\x00\x00"), "garbage"...), "truncated"},

		{"huge manifest", manifest(`{"talon_manifest": 1, "summary": "` + strings.Repeat("x", 300_000) + `"}`), "longer than 262144 bytes"},
		{"manifest for another world", manifest(`{"talon_manifest": 1, "name": "x", "worlds": ["video"]}`), "is for video, which this host does not know"},
		{"unknown capability", manifest(withCapabilities("net.dial")), `capability "net.dial", which this host does not have`},
		{"too much fuel", manifest(`{"talon_manifest": 1, "name": "x", "worlds": ["policy"], "budgets": {"fuel": 1000000000}}`), "asks for 1000000000 fuel"},
		{"too much output", manifest(`{"talon_manifest": 1, "name": "x", "worlds": ["policy"], "budgets": {"output_bytes": 100000000}}`), "bytes of output; the limit is"},

		{"no admit", guest{change: drop(abi.ExportAdmit)}.assemble(), "does not export the function talon_admit"},
		{"no buffer", guest{change: drop(abi.ExportBuffer)}.assemble(), "does not export the function talon_buffer"},
		{"no configure", guest{change: drop(abi.ExportConfigure)}.assemble(), "does not export the function talon_configure"},
		{"no memory", guest{change: drop(abi.ExportMemory)}.assemble(), `does not export its memory as "memory"`},
		{"wrong signature", guest{change: point(abi.ExportAdmit, 1)}.assemble(), "exports talon_admit as (i32) -> (i32); want (i32) -> (i64)"},
		{"wrong signature of _initialize", guest{change: point(abi.ExportInitialize, 1)}.assemble(), "exports _initialize as"},
		{"admit is a memory", guest{change: func(m *wasmtest.Module) { m.Exports[4].Kind, m.Exports[4].Index = wasmtest.KindMemory, 0 }}.assemble(),
			"does not export the function talon_admit"},

		{"unknown import", guest{imports: imported("env", "system", typeI32)}.assemble(), `imports the function "system" of "env", which this host does not have`},
		{"unknown host function", guest{imports: imported("talon", "net.dial", typeI32)}.assemble(), `imports the function "net.dial"`},
		{"file of WASI", guest{imports: imported(wasiModule, "path_open", typeI32)}.assemble(), `imports the function "path_open"`},
		{"undeclared capability", guest{imports: imported("talon", abi.CapStoreReferenced, typeTwoI32)}.assemble(),
			"imports store.referenced, but its manifest does not ask for this capability"},
		{"host function of another type", guest{manifest: withCapabilities(abi.CapLog), imports: imported("talon", abi.CapLog, typeVoid)}.assemble(),
			"imports log as () -> (); it is (i32, i32, i32) -> ()"},
		{"imported global", guest{change: func(m *wasmtest.Module) {
			m.Imports = append(m.Imports, wasmtest.Import{Module: "env", Name: "g", Kind: wasmtest.KindGlobal, Global: wasmtest.I32})
		}}.assemble(), "env"},

		{"endless _initialize", guest{initialize: forever}.assemble(), "failed in _initialize: it ran out of fuel"},
		{"endless buffer", guest{buffer: wasmtest.Body(forever, wasmtest.Unreachable)}.assemble(), "failed in talon_buffer: it ran out of fuel"},
		{"endless configure", guest{configure: wasmtest.Body(forever, wasmtest.Unreachable)}.assemble(), "failed in talon_configure: it ran out of fuel"},
		{"trap in _initialize", guest{initialize: wasmtest.Unreachable}.assemble(), "failed in _initialize: wasm error: unreachable"},
		{"exit in _initialize", guest{
			imports:    imported(wasiModule, "proc_exit", typeOne),
			initialize: wasmtest.Body(wasmtest.I32Const(3), wasmtest.Call(0)),
		}.assemble(), "failed in _initialize: exit status 3"},
		{"waits in _initialize", guest{
			imports:    imported(wasiModule, "poll_oneoff", typeQuery),
			initialize: wasmtest.Body(wasmtest.I32Const(0), wasmtest.I32Const(0), wasmtest.I32Const(0), wasmtest.I32Const(0), wasmtest.Call(0), wasmtest.Drop),
		}.assemble(), "a module cannot wait"},
		{"no buffer address", guest{buffer: wasmtest.I32Const(0)}.assemble(), "buffer outside of its memory"},
		{"refuses its configuration", guest{message: abi.AppendConfigured(nil, &abi.Configured{Failure: "config key = 7: want 8"}), configure: returns(messageAddr, 24)}.assemble(),
			"config key = 7: want 8"},
		{"refuses with garbage", guest{message: []byte{0xff, 0xff}, configure: returns(messageAddr, 2)}.assemble(), "answered its configuration with garbage"},
		{"refuses with a wild address", guest{configure: returns(0xffffff00, 100)}.assemble(), "address outside of its memory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := load(t, test.wasm, nil)
			if err == nil {
				t.Fatal("it was loaded")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v\nwant %q in it", err, test.want)
			}
			if len(err.Error()) > 2000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestPlainGuestIsLoaded(t *testing.T) {
	if got := admit(t, mustLoad(t, guest{}.assemble(), nil), item(1, "")); got != passes {
		t.Errorf("%+v, want %+v", got, passes)
	}
}

func TestManifestInPieces(t *testing.T) {
	wasm := guest{change: func(m *wasmtest.Module) {
		text := plainManifest
		m.Datas = nil
		// Out of order, as a linker may leave them.
		for _, i := range []int{2, 0, 1} {
			from, to := i*len(text)/3, (i+1)*len(text)/3
			m.Datas = append(m.Datas, wasmtest.Data{Offset: at(int32(5000 + from)), Bytes: []byte(text[from:to])})
		}
	}}.assemble()
	if _, _, err := load(t, wasm, nil); err != nil {
		t.Error(err)
	}
}

func TestFailuresOfStartTellWhatTheGuestSaid(t *testing.T) {
	const text = "out of cheese"
	iovec := fmt.Appendf(nil, "\x08\x04\x00\x00%c\x00\x00\x00%s", len(text), text)
	wasm := guest{
		message: iovec, imports: imported(wasiModule, "fd_write", typeQuery),
		configure: wasmtest.Body(
			wasmtest.I32Const(2), wasmtest.I32Const(messageAddr), wasmtest.I32Const(1), wasmtest.I32Const(scratchAddr), wasmtest.Call(0), wasmtest.Drop,
			wasmtest.Unreachable),
	}.assemble()
	_, _, err := load(t, wasm, nil)
	if err == nil || !strings.Contains(err.Error(), `it said "out of cheese"`) {
		t.Errorf("%v, want what the guest said", err)
	}
}

// TestIdleFunctions loads a module that says after its configuration what it has
// nothing to decide about.
func TestIdleFunctions(t *testing.T) {
	for _, test := range []struct {
		name string
		idle []string
		want []string
	}{
		{"none", nil, []string{"admit"}},
		{"one", []string{"admit"}, []string{}},
		{"others", []string{"query", "step", ""}, []string{"admit"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			message := abi.AppendConfigured(nil, &abi.Configured{Idle: test.idle})
			wasm := guest{message: message, configure: returns(messageAddr, uint32(len(message)))}.assemble()
			m := mustLoad(t, wasm, nil)
			if got := m.Functions(); !slices.Equal(got, test.want) {
				t.Errorf("the host calls %q, want %q", got, test.want)
			}
			if m.Calls(Admit) != slices.Contains(test.want, "admit") {
				t.Errorf("admit is called: %v", m.Calls(Admit))
			}
			if n := len(test.want); m.Instances() != n || (m.MemoryUsed() > 0) != (n > 0) || (m.engines.engine != nil) != (n > 0) {
				t.Errorf("%d instances, %d bytes, engine %v: one that nobody calls needs none", m.Instances(), m.MemoryUsed(), m.engines.engine)
			}
			if err := SelfTest(t.Context(), wasm, Options{Name: "guest"}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAbout loads modules that say something about the relay.
func TestAbout(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for _, test := range []struct {
		name  string
		about abi.About
		want  host.Description
		fails bool
	}{
		{"nothing", abi.About{}, host.Description{}, false},
		{"all", abi.About{Grasps: []string{"GRASP-05", "GRASP-01", "GRASP-05"}, Criteria: "every repository", Curation: "chosen ones"},
			host.Description{Grasps: []string{"GRASP-01", "GRASP-05"}, Criteria: "every repository", Curation: "chosen ones"}, false},
		{"several lines", abi.About{Criteria: " a\r\nb\x1b[31m\u202e ", Curation: long},
			host.Description{Criteria: "a  b [31m", Curation: long[:1024]}, false},
		{"an unknown word", abi.About{Grasps: []string{"GRASP-01", "NIP-01"}}, host.Description{}, true},
		{"markup", abi.About{Grasps: []string{"GRASP-<b>"}}, host.Description{}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			message := abi.AppendConfigured(nil, &abi.Configured{About: test.about})
			wasm := guest{message: message, configure: returns(messageAddr, uint32(len(message)))}.assemble()
			m, err := Load(t.Context(), wasm, Options{Name: "guest"})
			if test.fails {
				if f := AsFailure(err); f == nil || f.Cause != CauseGarbage {
					t.Errorf("%v, want a failure by %s", err, CauseGarbage)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close(t.Context())
			if got := m.About(); !reflect.DeepEqual(got, test.want) {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

// A failure tells what the guest said in any case: how much else was logged in this second
// does not matter.
func TestFailureTellsMoreThanIsLogged(t *testing.T) {
	m := mustLoad(t, guest{}.assemble(), nil)
	for m.logRate.allow() {
	}
	c := &call{inst: &instance{module: m}}
	c.log(0, "out of cheese")
	c.log(0, "and of bread")
	if c.firstLine != "out of cheese" {
		t.Errorf("it said %q", c.firstLine)
	}
}

func zstdOf(t *testing.T, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(data, nil)
}

// TestCompressed asks a module whose file is compressed. It is known by its file.
func TestCompressed(t *testing.T) {
	wasm := guest{}.assemble()
	file, cache := zstdOf(t, wasm), t.TempDir()
	for range 2 { // compiled, and as it was kept
		m := mustLoad(t, file, func(o *Options) { o.CacheDir = cache })
		if want := codeDir(cache, sha256.Sum256(file)); m.Code() != want {
			t.Errorf("its code is in %s, want %s", m.Code(), want)
		}
		admit(t, m, item(1, "hello"))
	}
	if err := SelfTest(t.Context(), file, Options{Name: "guest"}); err != nil {
		t.Error(err)
	}
	if man, err := ReadManifest(file); err != nil || man.Name != "guest" {
		t.Errorf("%v, %v", man, err)
	}
}

// TestDecompressRefuses is refused a file that holds no module, before much of it is in
// memory.
func TestDecompressRefuses(t *testing.T) {
	bomb := zstdOf(t, make([]byte, maxModuleSize+1))
	if len(bomb) > 100<<10 {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	for name, test := range map[string]struct {
		file []byte
		want string
	}{
		"too large":                      {make([]byte, maxModuleSize+1), "the limit is 33554432"},
		"too large when decompressed":    {bomb, "more than 33554432 bytes when it is decompressed"},
		"cut short":                      {zstdOf(t, guest{}.assemble())[:100], "decompress the module: "},
		"compressed twice":               {zstdOf(t, zstdOf(t, guest{}.assemble())), "not a WebAssembly module"},
		"of a form that is not read":     {[]byte("\x1f\x8b\x08 gzip"), "not a WebAssembly module"},
		"the first bytes of zstd, alone": {bytes.Clone(bomb[:4]), "decompress the module: "},
	} {
		_, err := Load(t.Context(), test.file, Options{Name: "guest"})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
