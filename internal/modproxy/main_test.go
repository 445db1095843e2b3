package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"talon/internal/testkit"
	"testing"
	"time"
)

// home is a module path as Talon has it once it has a public home.
const home = "example.org/team/talon"

// TestModulePath gives a copy of the repository another module path. All packages are
// found, those of the SDK pass go vet, and the old path gives back the same files. make test copies
// the SDK and the bundled modules alone.
func TestModulePath(t *testing.T) {
	var part []string
	if !testkit.Scale() {
		part = []string{"go.mod", "go.sum", "scripts", "sdk", "plugins"}
	}
	c := copyTree(t, part...)
	old := strings.TrimSpace(c.run("scripts/module-path"))
	c.run("scripts/module-path", home)
	if got := strings.TrimSpace(c.run("scripts/module-path")); got != home {
		t.Errorf("the module path is %s, want %s", got, home)
	}
	left := regexp.MustCompile(`(?m)^[^:]*\.go:[^:]*:.*"` + old + `/(sdk|host|cmd|internal|plugins|examples)\b.*$`)
	if found := left.FindString(c.run("git", "grep", "-n", "-e", `"`+old+"/", "-e", `"`+home+"/", "--", "*.go", ":!internal/modproxy")); found != "" {
		t.Errorf("the old path is left: %s", found)
	}
	packages := strings.Fields(c.run("go", "list", "./...", home+"/sdk/..."))
	if len(packages) < testkit.Sized(30, 100) {
		t.Errorf("the go tool finds %d packages", len(packages))
	}
	for _, pkg := range packages {
		if !strings.HasPrefix(pkg, home+"/") {
			t.Errorf("there is a package %s", pkg)
		}
	}
	if deps := c.run("go", "list", "-deps", home+"/sdk/policy", home+"/sdk/strategy", home+"/sdk/throttle"); !strings.Contains(deps, home+"/sdk/abi\n") {
		t.Errorf("the SDK is made of %s", deps)
	}
	if testkit.Scale() {
		c.run("go", "vet", home+"/sdk/policy", home+"/sdk/strategy", home+"/sdk/throttle")
	}

	c.run("scripts/module-path", old)
	if status := c.run("git", "status", "--porcelain"); status != "" {
		t.Errorf("the old path again: %s", status)
	}
	for _, wrong := range []string{"/talon", "https://example.org/talon", "example.org/talon/", "example.org/a b"} {
		cmd := exec.Command("scripts/module-path", wrong)
		cmd.Dir = c.dir
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "want HOST/PATH") {
			t.Errorf("path %q: %v %s", wrong, err, out)
		}
	}
}

// TestRelease makes a release of a copy of the repository: scripts/release refuses what is
// not ready, and both tags name one commit on top of the branch.
func TestRelease(t *testing.T) {
	if os.Getenv("TALON_TEST_SCALE") == "" {
		t.Skip("it makes a release of a copy of the repository: make scale")
	}
	released(t)
}

// released returns a copy of the repository with a public home, and the tag of its release.
func released(t *testing.T) (c *copied, tag string) {
	t.Helper()
	c = copyTree(t)
	changelog := regexp.MustCompile(`(?s)^(.*\n## Unreleased\n)(.*?)(\n## ([0-9]+\.[0-9]+\.[0-9]+)\n.*)$`).FindStringSubmatch(c.read("CHANGELOG.md"))
	if changelog == nil {
		t.Fatal("CHANGELOG.md has no section Unreleased with a version below it")
	}
	tag = "v" + changelog[4]
	c.run("scripts/module-path", "homeless")
	c.refuses("the tree is not clean", "scripts/release")
	c.commit("CHANGELOG.md", changelog[1]+"\n- An entry.\n"+changelog[3])
	c.refuses("CHANGELOG.md has entries under Unreleased: move them", "scripts/release")
	c.commit("CHANGELOG.md", changelog[1]+changelog[3])
	c.refuses("the module path homeless has no host: run scripts/module-path HOST/PATH and commit", "scripts/release")
	c.run("scripts/module-path", home)
	c.commit("sdk/VERSION", "0.0.1\n")
	c.refuses("sdk/VERSION is 0.0.1: want "+changelog[4], "scripts/release")
	c.commit("sdk/VERSION", changelog[4]+"\n")
	// Without TALON_TEST_SCALE the modules are not compiled, and never for the other architecture.
	making := "exit 0"
	if os.Getenv("TALON_TEST_SCALE") != "" {
		making = "exec scripts/bundle-all \"$1\""
	}
	c.run("cp", "-p", "scripts/bundle", "scripts/bundle-all")
	c.run("git", "add", "scripts/bundle-all")
	c.commit("scripts/bundle", "#!/bin/sh -e\ntouch host/bundle/modules.pack host/bundle/code_$1.pack\n[ \"$1\" != "+runtime.GOARCH+" ] || "+making+"\n")

	if said := c.run("scripts/release"); !strings.HasSuffix(said, "next: git push origin "+tag+" sdk/"+tag+"\n") {
		t.Errorf("scripts/release says %q", said)
	}
	c.refuses("the tag "+tag+" exists", "scripts/release")
	if got, want := c.run("git", "rev-parse", tag+"^{commit}", tag+"~"), c.run("git", "rev-parse", "sdk/"+tag+"^{commit}", "HEAD"); got != want {
		t.Errorf("%s and its parent are %q, want the commit of sdk/%s and the head of the branch, %q", tag, got, tag, want)
	}
	c.run("git", "cat-file", "-e", tag+":host/bundle/code_arm64.pack")
	if goMod := c.run("git", "show", tag+":go.mod"); strings.Contains(goMod, "replace") || !strings.Contains(goMod, home+"/sdk "+tag+"\n") {
		t.Errorf("go.mod of the release is\n%s", goMod)
	}
	if status := c.run("git", "status", "--porcelain") + c.run("git", "worktree", "list", "--porcelain"); strings.Count(status, "worktree ") != 1 {
		t.Errorf("scripts/release leaves %s", status)
	}
	return c, tag
}

// TestReleaseFromOutside publishes a release in a folder and uses it from outside: go install gives
// the program, a module imports the SDK, and talon plugin new requires it.
func TestReleaseFromOutside(t *testing.T) {
	if os.Getenv("TALON_TEST_SCALE") == "" {
		t.Skip("it compiles Talon under another path: make scale")
	}
	c, tag := released(t)
	proxy := t.TempDir()
	for _, module := range [][]string{{tag}, {"sdk", tag}} {
		cmd := exec.Command(build(t), append([]string{proxy, tag}, module...)...)
		cmd.Dir = c.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	// The sum database knows only public releases. For other modules it needs a network.
	outside := user{c: c, dir: t.TempDir(), bin: t.TempDir()}
	outside.env = append(os.Environ(), "GOPROXY=file://"+proxy+",file://"+strings.TrimSpace(c.run("go", "env", "GOMODCACHE"))+"/cache/download",
		"GOSUMDB=off", "GOMODCACHE="+t.TempDir(), "GOFLAGS=-modcacherw -trimpath", "GOBIN="+outside.bin, "PATH="+outside.bin+":"+os.Getenv("PATH"))
	outside.use(t, tag)

	// A checkout of the tag finds the SDK, with the hash that its go.sum has.
	checkout := exec.Command("git", "worktree", "add", "-q", filepath.Join(outside.dir, "checkout"), tag)
	checkout.Dir = c.dir
	if out, err := checkout.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	list := exec.Command("go", "list", "-mod=readonly", "-deps", "./cmd/talon")
	list.Dir, list.Env = filepath.Join(outside.dir, "checkout"), outside.env
	if out, err := list.CombinedOutput(); err != nil || !strings.Contains(string(out), home+"/sdk/grasp\n") {
		t.Errorf("in a checkout of %s: %v\n%s", tag, err, out)
	}
}

// user is an engineer who has no checkout.
type user struct {
	c        *copied
	dir, bin string
	env      []string
}

func (u user) use(t *testing.T, tag string) {
	t.Helper()
	run := func(dir string, env []string, name string, args ...string) string {
		t.Helper()
		began := time.Now()
		defer func() { t.Logf("%.1f s: %s %q", time.Since(began).Seconds(), filepath.Base(name), args) }()
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = dir, append(u.env, env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		return string(out)
	}

	run(u.dir, nil, "go", "install", home+"/cmd/talon@"+tag)
	talon := filepath.Join(u.bin, "talon")
	if said := run(u.dir, nil, talon, "version"); !strings.HasPrefix(said, "talon "+tag+" ") || !strings.Contains(said, "modules inside; their compiled code fits") {
		t.Errorf("talon version says %q", said)
	}

	if said := run(u.dir, nil, talon, "plugin", "new", "mine"); !strings.Contains(said, "go mod download") {
		t.Errorf("talon plugin new says %q", said)
	}
	mine := filepath.Join(u.dir, "mine")
	if goMod, err := os.ReadFile(filepath.Join(mine, "go.mod")); err != nil || !strings.Contains(string(goMod), "\nrequire "+home+"/sdk "+tag+"\n") {
		t.Errorf("go.mod of the new module: %v\n%s", err, goMod)
	}
	run(mine, nil, "go", "mod", "download")
	run(mine, nil, "go", "mod", "verify")
	if said := run(mine, nil, talon, "plugin", "test"); !strings.Contains(said, "ok ") {
		t.Errorf("talon plugin test says %q", said)
	}

	// A module that its author writes without Talon's commands.
	own := filepath.Join(u.dir, "own")
	if err := os.Mkdir(own, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"main.go", "manifest.json"} {
		if err := os.WriteFile(filepath.Join(own, file), []byte(u.c.read("examples/hello-policy/"+file)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run(own, nil, "go", "mod", "init", "example.net/own")
	run(own, nil, "go", "get", home+"/sdk/policy@"+tag)
	run(own, []string{"GOOS=wasip1", "GOARCH=wasm"}, "go", "build", "-buildmode=c-shared", "-o", "own.wasm", ".")
	if wasm, err := os.ReadFile(filepath.Join(own, "own.wasm")); err != nil || !bytes.HasPrefix(wasm, []byte("\x00asm")) {
		t.Errorf("the module: %d bytes, %v", len(wasm), err)
	}
}

// copied is a repository with one commit that has the files of this one.
type copied struct {
	t   *testing.T
	dir string
}

func copyTree(t *testing.T, part ...string) *copied {
	t.Helper()
	out, err := exec.Command("git", append([]string{"-C", "../..", "ls-files", "-z", "--"}, part...)...).Output()
	if err != nil {
		t.Skipf("this is no checkout: %v", err)
	}
	for _, name := range part {
		testkit.Inputs(t, filepath.Join("../..", name)) // a file may be new
	}
	c := &copied{t: t, dir: t.TempDir()}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		from, to := filepath.Join("../..", name), filepath.Join(c.dir, name)
		info, err := os.Lstat(from)
		if os.IsNotExist(err) {
			continue // removed, and not committed yet
		}
		if err != nil || !info.Mode().IsRegular() {
			t.Fatalf("copy %s: %v %v", name, info.Mode(), err)
		}
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil {
			err = os.WriteFile(to, text, info.Mode()&fs.ModePerm)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"config", "user.name", "test"}, {"config", "user.email", "test@example.org"}, {"add", "-A"}, {"commit", "-qm", "copy"}} {
		c.run("git", args...)
	}
	return c
}

// run runs a command in the copy and returns its output.
func (c *copied) run(name string, args ...string) string {
	c.t.Helper()
	cmd := exec.Command(name, args...)
	if strings.Contains(name, "/") {
		cmd.Path = filepath.Join(c.dir, name)
	}
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = c.dir, &stderr
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
	}
	return string(out)
}

// refuses runs a command that must fail with this text.
func (c *copied) refuses(want, name string) {
	c.t.Helper()
	cmd := exec.Command(filepath.Join(c.dir, name))
	cmd.Dir = c.dir
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
		c.t.Errorf("%s: %v, %s; want %s", name, err, out, want)
	}
}

// commit writes a file and commits all changes.
func (c *copied) commit(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
	c.run("git", "commit", "-qam", "change "+name)
}

func (c *copied) read(name string) string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// build compiles this command.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "modproxy")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}
