package examples

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"talon/host"
	"talon/host/plugin/guest"
	"talon/host/plugin/plugintest"
	"talon/host/plugin/state"
	"talon/internal/race"
	"talon/internal/testkit"
	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
)

// machineCode keeps compiled modules for the tests of one run, cargoTarget what cargo
// has built, tree the folders that examples are compiled in.
var machineCode, cargoTarget, tree string

func TestMain(m *testing.M) { os.Exit(plugintest.Main(tests{m})) }

type tests struct{ *testing.M }

// Run runs the tests and removes what they shared.
func (m tests) Run() int {
	dir, err := os.MkdirTemp("", "talon-examples-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	machineCode, cargoTarget, tree = plugintest.Code(), filepath.Join(dir, "cargo"), filepath.Join(dir, "tree")
	return m.M.Run()
}

// names are the examples that there are in every language.
var names = []string{"hello-policy", "allow-rate"}

// inEachLanguage runs a test for an example in every language whose compiler is
// here.
func inEachLanguage(t *testing.T, name string, test func(t *testing.T, wasm []byte)) {
	for i := range languages {
		inLanguage(t, &languages[i], name, test)
	}
}

func inLanguage(t *testing.T, l *language, name string, test func(t *testing.T, wasm []byte)) {
	t.Run(l.name, func(t *testing.T) {
		t.Parallel()
		test(t, compile(t, l, name))
	})
}

// TestVectors audits each module and runs its self-test, as a relay does before
// the module decides: the vectors of the manifest and the probes of the host,
// compiled and interpreted.
func TestVectors(t *testing.T) {
	const everywhere, otherWorld, inGo = "Go C Rust AssemblyScript", "Go Rust", "Go"
	for _, example := range []struct {
		name, languages string
		vectors         int // at least
	}{
		{"hello-policy", everywhere, 3}, {"allow-rate", everywhere, 3}, {"hello-throttle", otherWorld, 8},
		{"members-only", inGo, 1}, {"thread-parents", inGo, 1}, {"slow-domain", inGo, 0},
	} {
		t.Run(example.name, func(t *testing.T) {
			for i := range languages {
				if !slices.Contains(strings.Fields(example.languages), languages[i].name) {
					continue
				}
				inLanguage(t, &languages[i], example.name, func(t *testing.T, wasm []byte) {
					o := guest.Options{Name: example.name, CacheDir: machineCode}
					if err := guest.SelfTest(t.Context(), wasm, o); err != nil {
						t.Fatal(err)
					}
					if n := len(load(t, wasm, o).Manifest().Vectors); n < example.vectors {
						t.Errorf("the manifest has %d vectors", n)
					}
				})
			}
		})
	}
}

// TestConformance runs a module that uses all of its SDK.
func TestConformance(t *testing.T) {
	inEachLanguage(t, "conformance", func(t *testing.T, wasm []byte) {
		o := guest.Options{Name: "conformance", CacheDir: machineCode}
		if err := guest.SelfTest(t.Context(), wasm, o); err != nil {
			t.Fatal(err)
		}
		m := load(t, wasm, o)
		if about := m.About(); about.Criteria != "everything" || about.Curation != "nothing" || about.Writes != host.WritesRestricted || !slices.Equal(about.Grasps, []string{"GRASP-01", "GRASP-06"}) ||
			about.Limits != (host.Limitation{MaxContentLength: 70_000, MaxEventTags: 300, CreatedAtLowerLimit: 1, CreatedAtUpperLimit: 900, MinPowDifficulty: 20, AuthRequired: true}) {
			t.Errorf("the module says %+v of the relay", about)
		}
		o.Config = map[string]any{"text": "wrong"}
		if _, err := guest.Load(t.Context(), wasm, o); err == nil || err.Error() != `config text has "wrong": want another` {
			t.Errorf("a wrong value: %v", err)
		}
	})
}

// TestManifestsAreTheSame holds the copies against the one of Go: vectors are the
// same in every language.
func TestManifestsAreTheSame(t *testing.T) {
	for name, copies := range map[string]int{"hello-policy": 4, "allow-rate": 4, "conformance": 4, "hello-strategy": 2, "hello-throttle": 2} {
		name = folderOf(name)
		want, err := os.ReadFile(name + "/manifest.json")
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range languages {
			got, err := os.ReadFile(name + l.suffix + "/manifest.json")
			switch {
			case errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil || !bytes.Equal(got, want):
				t.Errorf("%s%s/manifest.json is not that of %s (%v)", name, l.suffix, name, err)
			}
			copies--
		}
		if copies != 0 {
			t.Errorf("%s is not in as many languages as it should be in", name)
		}
	}
}

// TestRate asks one module about events one after the other: what it keeps is what
// vectors cannot show, since each begins with nothing.
func TestRate(t *testing.T) {
	text, err := os.ReadFile("testdata/allow-rate.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var story []*manifest.Vector
	for line := range strings.Lines(string(text)) {
		v := new(manifest.Vector)
		if err := json.Unmarshal([]byte(line), v); err != nil {
			t.Fatal(err)
		}
		story = append(story, v)
	}
	inEachLanguage(t, "allow-rate", func(t *testing.T, wasm []byte) {
		m := load(t, wasm, guest.Options{Name: "allow-rate", Config: story[0].Config, State: newState(t)})
		for _, v := range story {
			request, err := v.Request()
			if err != nil {
				t.Fatal(err)
			}
			r, _, err := m.Rule(t.Context(), guest.Admit, request, nil, v.Now, v.Source.Origin)
			if err != nil {
				t.Fatalf("%s: %v", v.Name, err)
			}
			if r.Action.String() != v.Want.Action || r.Rule != v.Want.Rule || r.Reason != v.Want.Reason {
				t.Errorf("%s: %v by %s with %q, want %+v", v.Name, r.Action, r.Rule, r.Reason, v.Want)
			}
		}
	})
}

// TestWrongKey gives a configuration that the manifest cannot describe as wrong.
func TestWrongKey(t *testing.T) {
	const npub = "npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6"
	inEachLanguage(t, "allow-rate", func(t *testing.T, wasm []byte) {
		for _, author := range []string{
			"", "npub1", npub[:62] + "q", strings.ToUpper(npub[:30]) + npub[30:], "nsec1" + npub[5:],
			strings.Repeat("0", 63) + "g", strings.Repeat("ö", 32), strings.Repeat("0", 65), npub + "q",
			strings.Repeat("K", 21), `"`, "\x7f", // K is the Kelvin sign: lower case makes it a k
		} {
			o := guest.Options{Name: "allow-rate", CacheDir: machineCode, Config: map[string]any{"allow": []any{strings.Repeat("0", 64), author}}}
			m, err := guest.Load(t.Context(), wasm, o)
			if err == nil {
				m.Close(t.Context())
			}
			if want := "config allow has "; err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), ": want an npub or 64 hex digits") {
				t.Errorf("%q: %v, want %s…", author, err, want)
			}
		}
	})
}

// TestKeys lets each SDK decode and encode the codes of the file that all of them are
// tested with, as a setting and as the key of the operator.
func TestKeys(t *testing.T) {
	text, err := os.ReadFile("../../shared/data/nip19.json")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("there is no ../shared/data/nip19.json")
	}
	if err != nil {
		t.Fatal(err)
	}
	var cases struct {
		Valid []struct {
			Code, Type string
			Data       json.RawMessage // of a key: hex digits
		}
		Invalid []struct{ Code string }
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	answers := make(map[string]string) // by the code: the end of what the module says
	npubs, seen := 0, make(map[string]bool)
	for _, c := range cases.Valid {
		if seen[c.Type] && c.Type != "npub" {
			continue
		}
		seen[c.Type] = true
		if answers[c.Code] = " operator= key="; c.Type == "npub" {
			npubs++
			digits := strings.Trim(string(c.Data), `"`)
			answers[c.Code] = " operator=" + c.Code + "," + digits + " key=" + digits
		}
	}
	for _, c := range cases.Invalid {
		answers[c.Code] = " operator= key="
	}
	if npubs < 3 {
		t.Fatalf("the file has %d npubs", npubs)
	}
	inEachLanguage(t, "conformance", func(t *testing.T, wasm []byte) {
		for code, want := range answers {
			o := guest.Options{Name: "conformance", Config: map[string]any{"text": code}, State: newState(t), Held: nothing{}, Instances: 1}
			if _, digits, ok := strings.Cut(want, " key="); ok && digits != "" && !host.ParseHex(o.Service.Operator[:], digits) {
				t.Fatal(digits)
			}
			r, _, err := load(t, wasm, o).Rule(t.Context(), guest.Admit, admitRequest(new(abi.Event[[]string])), nothing{}, 1_700_000_000, "client")
			if err != nil || !strings.HasSuffix(r.Reason, want) {
				t.Errorf("%s: %q, %v, want …%s", code, r.Reason, err, want)
			}
			if r.Retry != time.Minute {
				t.Errorf("says 90 seconds, of which the host allows 60, and is understood as %s", r.Retry)
			}
		}
	})
}

// TestKindsArePackedOrNot asks with the kinds of a filter in every form that protobuf
// allows.
func TestKindsArePackedOrNot(t *testing.T) {
	forms := map[string][]byte{
		"packed":     {0x1a, 5, 0, 7, 0xc7, 0xea, 0x01},
		"one by one": {0x18, 0, 0x18, 7, 0x18, 0xc7, 0xea, 0x01},
		"both":       {0x18, 0, 0x1a, 0, 0x1a, 1, 7, 0x18, 0xc7, 0xea, 0x01},
	}
	inEachLanguage(t, "conformance", func(t *testing.T, wasm []byte) {
		m := load(t, wasm, guest.Options{Name: "conformance", Instances: 1})
		for name, filter := range forms {
			request := abi.AppendQueryRequest(protowire.AppendBytes([]byte{0x0a}, filter), &abi.QueryRequest[host.PubKey]{Verb: abi.VerbReq})
			r, _, err := m.Rule(t.Context(), guest.Query, request, nil, 1_700_000_000, "")
			if err != nil || !strings.Contains(r.Reason, " kinds=0,7,30023, ") {
				t.Errorf("%s: %q, %v", name, r.Reason, err)
			}
		}
	})
}

// nothing is a store and a purgatory without events.
type nothing struct{}

func (nothing) Get(context.Context, host.ID) ([]byte, error)          { return nil, nil }
func (nothing) Query(context.Context, host.Filter) ([][]byte, error)  { return nil, nil }
func (nothing) Referenced(context.Context, string) (bool, error)      { return false, nil }
func (nothing) Held(context.Context, host.ID) ([]byte, error)         { return nil, nil }
func (nothing) HeldBy(context.Context, host.Filter) ([][]byte, error) { return nil, nil }

// TestIdle leaves the list empty: the host need not call the module.
func TestIdle(t *testing.T) {
	inEachLanguage(t, "allow-rate", func(t *testing.T, wasm []byte) {
		if load(t, wasm, guest.Options{Name: "allow-rate"}).Calls(guest.Admit) {
			t.Error("the module does not say that it is idle")
		}
	})
}

// TestMemoryIsBounded asks about events of growing size, so that each request is
// larger than the one before, and then about many that are accepted or refused.
func TestMemoryIsBounded(t *testing.T) {
	config := allowed(2)
	config["burst"] = int64(10_000)
	inEachLanguage(t, "allow-rate", func(t *testing.T, wasm []byte) {
		m := load(t, wasm, guest.Options{Name: "allow-rate", Config: config, State: newState(t), Instances: 1})
		ask := func(by, size int) {
			request := admitRequest(&abi.Event[[]string]{PubKey: author(by), Kind: 1, Content: strings.Repeat("x", size)})
			if _, _, err := m.Rule(t.Context(), guest.Admit, request, nil, 1_700_000_000, "client"); err != nil {
				t.Fatalf("%d bytes of content: %v", size, err)
			}
		}
		for size := 15 << 10; size < 600<<10; size += testkit.Sized(2571, 257) {
			ask(1, size)
		}
		// A heap that is collected grows up to about twice of what is in use, and then no more: in Go
		// after 200,000 decisions.
		many := func(decisions int) int64 {
			for i := range decisions {
				ask(i%3, 1000) // two spend their tokens, the third is not on the list
			}
			return m.MemoryUsed()
		}
		before := many(testkit.Sized(2000, 300_000))
		after := many(testkit.Sized(4000, 300_000))
		if after > before {
			t.Errorf("the memory of an instance grew from %d to %d bytes", before, after)
		}
	})
}

// stringsAssemblyScript is a policy that leaves strings and arrays behind in each
// decision, as many that people write do.
const stringsAssemblyScript = `import { Admit, Policy, Verdict, register } from "talon-policy";
export { talon_abi_1, talon_admit, talon_buffer, talon_configure } from "talon-policy";

class Strings extends Policy {
  admit(input: Admit): Verdict {
    let text = "";
    const words = input.event.content.toString().toLowerCase().split(" ");
    for (let i = 0; i < words.length; i++) text += words[i] + "-";
    return Verdict.reject("blocked", "the text is " + text).by("strings");
  }
}

register(new Strings());
`

// TestGarbageIsCollected asks one instance of the template of AssemblyScript, in which
// somebody has written a policy that makes strings.
func TestGarbageIsCollected(t *testing.T) {
	if race.Detector {
		t.Skip("the race detector watches the host, which does the same for other modules")
	}
	why, env := missingAssemblyScript()
	if why != "" {
		t.Skip(why)
	}
	const name = "hello-policy"
	at, err := lay(name + "-strings")
	if err != nil {
		t.Fatal(err)
	}
	l := languages[3]
	commands := "cat > assembly/index.ts <<'END'\n" + stringsAssemblyScript + "END\n" + l.commands
	wasm, err := compileIn(at, name+l.suffix, name, commands, env)
	if err != nil {
		t.Fatal(err)
	}
	m := load(t, wasm, guest.Options{Name: name, Instances: 1})
	request := admitRequest(&abi.Event[[]string]{PubKey: author(1), Kind: 1, Content: strings.Repeat("Some Words ", 50)})
	ask := func(decisions int) int64 {
		for range decisions {
			if r, _, err := m.Rule(t.Context(), guest.Admit, request, nil, 1_700_000_000, "client"); err != nil || r.Rule != "strings" {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		return m.MemoryUsed()
	}
	before := ask(5_000)
	decisions := 20_000
	if os.Getenv("TALON_TEST_GUIDES") != "" {
		decisions = 1_000_000
	}
	if after := ask(decisions); after > before {
		t.Errorf("the memory of an instance grew from %d to %d bytes in %d decisions", before, after, decisions)
	}
}

func load(t testing.TB, wasm []byte, o guest.Options) *guest.Module {
	t.Helper()
	o.CacheDir = machineCode
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	m, err := guest.Load(t.Context(), wasm, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return m
}

func newState(t testing.TB) guest.State {
	t.Helper()
	memory, err := state.Open(t.Context(), nil, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return memory.Of("example")
}

// author is a key that the configuration of allowed has for 0 <= i < n.
func author(i int) []byte {
	return append([]byte{byte(i), byte(i >> 8)}, bytes.Repeat([]byte{7}, 30)...)
}

func allowed(n int) map[string]any {
	list := make([]any, n)
	for i := range list {
		list[i] = fmt.Sprintf("%x", author(i))
	}
	return map[string]any{"allow": list, "burst": int64(1_000_000), "per_minute": int64(6000)}
}

func admitRequest(e *abi.Event[[]string]) []byte {
	return abi.AppendAdmitRequest(nil, &abi.AdmitRequest[[]string, host.PubKey]{
		Event: *e, Origin: abi.OriginClient, Address: []byte("192.0.2.1"), Now: 1_700_000_000,
	})
}

// TestWasmOptInPath builds a module in C where the PATH has a wasm-opt that refuses
// every module, as that of binaryen refuses instructions that it is not told of.
func TestWasmOptInPath(t *testing.T) {
	if why, _ := missingClang(); why != "" {
		t.Skip(why)
	}
	bin := t.TempDir()
	testkit.WriteProgram(t, filepath.Join(bin, "wasm-opt"), "#!/bin/sh\nexit 1\n")
	at, err := lay("hello-policy-wasm-opt")
	if err != nil {
		t.Fatal(err)
	}
	const name = "hello-policy"
	wasm, err := compileIn(at, name+"-c", name, languages[1].commands, []string{"PATH=" + bin + string(filepath.ListSeparator) + os.Getenv("PATH")})
	if err != nil || len(wasm) == 0 {
		t.Errorf("%d bytes, %v", len(wasm), err)
	}
	if left, _ := filepath.Glob(filepath.Join(at, "*.o")); left != nil {
		t.Errorf("the build leaves %q", left)
	}
}

// gaveUp reports whether a module ended itself, as it should when a request is malformed. The host
// does not let a Go guest go on after a panic.
func gaveUp(err error) bool {
	var f *guest.Failure
	return errors.As(err, &f) && (f.Cause == guest.CauseTrap || f.Cause == guest.CauseExit || f.Cause == guest.CauseHost)
}
