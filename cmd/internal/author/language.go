package author

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"talon/sdk"
	"talon/sdk/abi/manifest"
)

// language is how modules are written and built in one language. To add one, add an
// entry to languages.
type language struct {
	name     string            // as --lang takes it
	examples map[string]string // the example with which a module begins, by world
	taken    string            // the SDK's own name, where a module cannot have the same
	sdk      []string          // files and folders of the SDK that a module gets, at the same place below sdkDir
	files    map[string]string // more files of a new module; NAME stands for its name
	first    string            // a command that a new folder needs once, from the network; empty if it needs none
	marks    []string          // patterns of files by which a folder is known to be of this language

	// find returns the compiler, and what it needs in its environment so that it works
	// and fetches nothing. An error says what is missing and how to get it.
	find func(dir string) (program string, env []string, err error)

	// build returns the compiler's arguments, and which file it makes, a pattern: out, or
	// another one.
	build func(dir, name, out string) (args []string, made string)

	said   func(line string) bool // whether a line of the compiler's is about a mistake
	native []string               // arguments by which its own unit tests run; none: it has none
}

var languages = []language{golang, rust, assemblyscript, clang}

// Languages are the languages in which Create can write a module.
func Languages() []string {
	names := make([]string, len(languages))
	for i := range languages {
		names[i] = languages[i].name
	}
	return names
}

func languageOf(name string) (*language, error) {
	for i := range languages {
		if languages[i].name == name {
			return &languages[i], nil
		}
	}
	return nil, fmt.Errorf("language %.40q: want one of %s", name, strings.Join(Languages(), ", "))
}

// Next returns the next command line for an author in a new folder.
func Next(dir, lang string) string {
	next := "cd " + dir + " && "
	switch l, err := languageOf(lang); {
	case err != nil:
	case l.first != "":
		next += l.first + " && "
	case l.name == golang.name && thisRelease() != nil:
		next += "go mod download && "
	}
	return next + "talon plugin test"
}

// worlds are those for which the language has an SDK.
func (l *language) worlds() []string {
	var names []string
	for _, world := range []string{manifest.WorldPolicy, manifest.WorldStrategy, manifest.WorldThrottle} {
		if l.examples[world] != "" {
			names = append(names, world)
		}
	}
	return names
}

// languagesFor are those that have an SDK for a world.
func languagesFor(world string) []string {
	var names []string
	for i := range languages {
		if languages[i].examples[world] != "" {
			names = append(names, languages[i].name)
		}
	}
	return names
}

// languageIn says in which language the module in a folder is written.
func languageIn(dir string) (*language, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look for a module: %w", err)
	}
	for i := range languages {
		l := &languages[i]
		if slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
			return slices.ContainsFunc(l.marks, func(pattern string) bool {
				ok, _ := path.Match(pattern, e.Name())
				return ok && !e.IsDir()
			})
		}) {
			return l, nil
		}
	}
	return nil, fmt.Errorf("there is no module in the folder %s: want a .wasm file, or a folder that talon plugin new made", dir)
}

// golang builds with nothing but the standard toolchain. The version is the first that
// has go:wasmexport.
var golang = language{
	name: "go",
	examples: map[string]string{
		manifest.WorldPolicy: "hello-policy", manifest.WorldStrategy: "hello-strategy", manifest.WorldThrottle: "hello-throttle",
	},
	sdk: []string{"go.mod", "abi", "grasp", "internal", "module", "nip19", "policy", "strategy", "throttle"},
	files: map[string]string{
		"go.mod": "module example.com/NAME\n\ngo 1.24\n\nrequire " + sdk.Path() + " v" + sdk.Version() + "\n\n" + replaceSDK + "\n",
	},
	marks: []string{"*.go"},
	find:  findGo,
	build: func(_, _, out string) ([]string, string) {
		return []string{"build", "-buildmode=c-shared", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", out, "."}, out
	},
	said:   func(line string) bool { return !strings.HasPrefix(line, "#") },
	native: []string{"test", "./..."},
}

// goTarget makes the go tool build for WebAssembly; its unit tests run natively.
var goTarget = []string{"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0"}

// clang builds by the Makefile in the folder.
var clang = language{
	name:     "c",
	examples: map[string]string{manifest.WorldPolicy: "hello-policy-c"},
	sdk:      []string{"c"},
	marks:    []string{"*.c"},
	find: func(string) (program string, _ []string, err error) {
		for _, tool := range []string{"clang", "wasm-ld", "make"} {
			if program, err = exec.LookPath(tool); err != nil {
				return "", nil, missing(tool, "on Debian, apt install clang lld make")
			}
		}
		return program, nil, nil
	},
	build: func(dir, name, _ string) ([]string, string) {
		return []string{"--silent", name + ".wasm"}, filepath.Join(dir, name+".wasm")
	},
	said: func(line string) bool {
		return strings.Contains(line, "error:") || strings.HasPrefix(line, "make: ***")
	},
}

const rustTarget = "wasm32-unknown-unknown"

var rust = language{
	name: "rust",
	examples: map[string]string{
		manifest.WorldPolicy: "hello-policy-rust", manifest.WorldStrategy: "hello-strategy-rust", manifest.WorldThrottle: "hello-throttle-rust",
	},
	taken: "talon",
	sdk:   []string{"rust"},
	marks: []string{"Cargo.toml"},
	find:  findRust,
	build: func(dir, _, _ string) ([]string, string) {
		target := filepath.Join(dir, "target")
		return []string{"build", "--quiet", "--offline", "--release", "--target", rustTarget, "--target-dir", target},
			filepath.Join(target, rustTarget, "release", "*.wasm")
	},
	said: func(line string) bool { return strings.HasPrefix(line, "error") },
}

// findRust looks for a rustc that has the target, with its own cargo: the first one in
// the PATH may be one without.
func findRust(string) (program string, env []string, err error) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		out, err := exec.Command(filepath.Join(dir, "rustc"), "--print", "target-libdir", "--target", rustTarget).Output()
		if err != nil {
			continue
		}
		if list, err := os.ReadDir(strings.TrimSpace(string(out))); err != nil || len(list) == 0 {
			continue
		}
		if program, err := exec.LookPath(filepath.Join(dir, "cargo")); err == nil {
			return program, []string{"PATH=" + dir + string(filepath.ListSeparator) + os.Getenv("PATH")}, nil
		}
	}
	return "", nil, missing("rustc with cargo and the target "+rustTarget,
		"on Debian, apt install cargo rustc libstd-rust-dev-wasm32; elsewhere, rustup target add "+rustTarget)
}

// assemblyscript builds with the compiler that npm has put into the folder.
var assemblyscript = language{
	name:     "assemblyscript",
	examples: map[string]string{manifest.WorldPolicy: "hello-policy-assemblyscript"},
	taken:    "talon-policy",
	sdk:      []string{"assemblyscript"},
	first:    "npm install",
	marks:    []string{"asconfig.json"},
	find: func(dir string) (program string, _ []string, err error) {
		for _, tool := range []string{"node", "npm"} {
			if program, err = exec.LookPath(tool); err != nil {
				return "", nil, missing(tool, "on Debian, apt install nodejs npm")
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "node_modules", ".bin", "asc")); err != nil {
			return "", nil, missing("asc", "run npm install in "+dir+" once, which fetches it")
		}
		return program, []string{"npm_config_offline=true", "npm_config_update_notifier=false"}, nil
	},
	build: func(dir, name, _ string) ([]string, string) {
		return []string{"run", "--silent", "build"}, filepath.Join(dir, name+".wasm")
	},
	said: func(line string) bool { return strings.HasPrefix(line, "ERROR") },
}

func missing(tool, remedy string) error {
	return fmt.Errorf("the compiler is missing, there is no %s: %s", tool, remedy)
}
