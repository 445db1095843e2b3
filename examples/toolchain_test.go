package examples

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"talon/host/plugin/plugintest"
	"talon/internal/race"
	"talon/internal/testkit"
)

// language is what a policy is written in.
type language struct {
	name   string
	suffix string // of the example's folder

	// commands make NAME.wasm in the example's folder. NAME is what it is called.
	commands string

	// missing says which compiler is not there and how to get it, "" if it is there, and
	// what the commands need in their environment.
	missing func() (why string, env []string)

	// versions are commands that write which compilers these are.
	versions string

	// sdk is the folder of its SDK in ../sdk.
	sdk string
}

var languages = []language{
	{"Go", "", "", func() (string, []string) { return "", nil }, "", ""},
	{"C", "-c", `make --silent "$NAME.wasm"`, missingClang, "clang --version && wasm-ld --version", "c"},
	{"Rust", "-rust", `cargo build --quiet --offline --release --target wasm32-unknown-unknown && ` +
		`cp "${CARGO_TARGET_DIR:-target}/wasm32-unknown-unknown/release/$(echo "$NAME" | tr - _).wasm" "$NAME.wasm"`, missingRust,
		"rustc -vV && cargo -V && env | grep ^CARGO_PROFILE_ | sort", "rust"},
	{"AssemblyScript", "-assemblyscript", `npm run --silent build`, missingAssemblyScript,
		"node --version && cat ../sdk/assemblyscript/node_modules/assemblyscript/package.json", "assemblyscript"},
}

func missingClang() (string, []string) {
	for _, tool := range []string{"clang", "wasm-ld", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			return tool + " is missing for C: on Debian, apt install clang lld make", nil
		}
	}
	return "", nil
}

// missingRust looks for a rustc that has the target, with its own cargo: the first
// one may be one without.
var missingRust = sync.OnceValues(func() (string, []string) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		rustc := exec.Command(filepath.Join(dir, "rustc"), "--print", "target-libdir", "--target", "wasm32-unknown-unknown")
		out, err := rustc.Output()
		if err != nil {
			continue
		}
		if list, err := os.ReadDir(strings.TrimSpace(string(out))); err != nil || len(list) == 0 {
			continue
		}
		if _, err := exec.LookPath(filepath.Join(dir, "cargo")); err == nil {
			return "", []string{"PATH=" + dir + string(filepath.ListSeparator) + os.Getenv("PATH")}
		}
	}
	return "no rustc with cargo has the target wasm32-unknown-unknown, for Rust: on Debian, apt install cargo rustc libstd-rust-dev-wasm32 lld; " +
		"elsewhere, rustup target add wasm32-unknown-unknown", nil
})

func missingAssemblyScript() (string, []string) {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			return tool + " is missing for AssemblyScript: on Debian, apt install nodejs npm", nil
		}
	}
	if _, err := os.Stat("../sdk/assemblyscript/node_modules/assemblyscript"); err != nil {
		return "the compiler of AssemblyScript is missing: npm ci --prefix sdk/assemblyscript", nil
	}
	return "", nil
}

// folderOf is the folder of an example in Go.
func folderOf(name string) string {
	if name == "conformance" {
		return "testdata/" + name
	}
	return name
}

// built keeps what this process has compiled.
var built sync.Map // of the example's folder: func() ([]byte, error)

// compile returns the module of an example in a language. It skips the test where
// the compiler is missing.
func compile(t testing.TB, l *language, name string) []byte {
	t.Helper()
	if race.Detector && l.name != "C" {
		t.Skip("the race detector watches the host, which does the same for the module of each language")
	}
	folder := folderOf(name) + l.suffix
	if l.suffix == "" {
		plugintest.MachineCode(t, "examples/"+folder)
		wasm, err := os.ReadFile(filepath.Join(plugintest.Build(t, "examples/"+folder), name+".wasm"))
		if err != nil {
			t.Fatal(err)
		}
		return wasm
	}
	why, env := l.missing()
	if why != "" {
		t.Skip(why)
	}
	once, _ := built.LoadOrStore(folder, sync.OnceValues(func() ([]byte, error) {
		return keep(l, folder, env, func() ([]byte, error) {
			at, err := lay(filepath.Base(folder))
			if err != nil {
				return nil, err
			}
			return compileIn(at, folder, name, l.commands, env)
		})
	}))
	wasm, err := once.(func() ([]byte, error))()
	if err != nil {
		t.Fatalf("build %s: %v", folder, err)
	}
	return wasm
}

// keep returns the module that an earlier test process built from the same sources with the same
// compilers, or builds it. make guides and make scale build each.
func keep(l *language, folder string, env []string, build func() ([]byte, error)) ([]byte, error) {
	if os.Getenv("TALON_TEST_GUIDES") != "" || os.Getenv("TALON_TEST_SCALE") != "" {
		return build()
	}
	sum := sha256.New()
	cmd := exec.Command("sh", "-c", l.versions)
	cmd.Env = append(os.Environ(), env...)
	versions, err := cmd.CombinedOutput()
	if err != nil && len(versions) == 0 {
		return nil, fmt.Errorf("%s: %w", l.versions, err)
	}
	fmt.Fprintf(sum, "%q %q %q\n", folder, l.commands, versions)
	for _, dir := range []string{folder, filepath.Join("..", "sdk", l.sdk)} {
		err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "target"):
				return fs.SkipDir
			case d.Type().IsRegular():
				text, err := os.ReadFile(file)
				fmt.Fprintf(sum, "%q %d\n%s", file, len(text), text)
				return err
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	entry := filepath.Join(testkit.Kept(), fmt.Sprintf("%x", sum.Sum(nil)))
	file := filepath.Join(entry, "module.wasm")
	if wasm, err := os.ReadFile(file); err == nil {
		now := time.Now()
		_ = os.Chtimes(entry, now, now) // in use
		return wasm, nil
	}
	wasm, err := build()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(testkit.Kept(), 0o700); err != nil {
		return nil, err
	}
	made, err := os.MkdirTemp(testkit.Kept(), "building-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(made)
	if err := os.WriteFile(filepath.Join(made, filepath.Base(file)), wasm, 0o600); err != nil {
		return nil, err
	}
	_ = os.Rename(made, entry) // fails if another process was faster
	return wasm, nil
}

// compileIn runs commands in a copy of an example's folder.
func compileIn(dir, folder, name, commands string, env []string) ([]byte, error) {
	if err := os.CopyFS(dir, os.DirFS(folder)); err != nil {
		return nil, err
	}
	if err := run(dir, "../../sdk/assemblyscript", commands, append(env, "NAME="+name)); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, name+".wasm"))
}

// lay makes a folder for an example in the tree, which looks like this repository to
// relative paths: what all examples need of the SDK is compiled once.
func lay(folder string) (string, error) {
	sdk, err := filepath.Abs("../sdk")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(tree, "examples", folder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := os.Symlink(sdk, filepath.Join(tree, "sdk")); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return dir, nil
}

// run runs commands as an author does who has this repository and the compilers,
// but no network. sdk is where that of AssemblyScript is, as seen from dir.
func run(dir, sdk, commands string, env []string) error {
	if _, err := os.Stat(filepath.Join(dir, "package.json")); err == nil {
		if err := installed(dir, filepath.Join("..", sdk)); err != nil {
			return err
		}
	}
	cmd := exec.Command("sh", "-e", "-c", commands)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "CARGO_TARGET_DIR="+cargoTarget), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", commands, err, text)
	}
	return nil
}

// installed does what npm install does with a package.json that names the sdk and
// the compiler.
func installed(dir, sdk string) error {
	modules := filepath.Join(dir, "node_modules")
	if err := os.MkdirAll(filepath.Join(modules, ".bin"), 0o700); err != nil {
		return err
	}
	for link, to := range map[string]string{
		"talon-policy": sdk, "assemblyscript": sdk + "/node_modules/assemblyscript",
		".bin/asc": "../assemblyscript/bin/asc.js",
	} {
		if err := os.Symlink(to, filepath.Join(modules, link)); err != nil {
			return err
		}
	}
	return nil
}
