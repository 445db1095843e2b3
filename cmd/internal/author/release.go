package author

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"

	"golang.org/x/mod/sumdb/dirhash"

	"talon/sdk"
)

// release is a version of the SDK that the go tool can fetch.
type release struct {
	version string // such as v0.9.0
	sum     string // the hash of the module as go.sum has it
}

// thisRelease returns the release of the SDK that this program was built with. It is nil
// if the SDK came from a folder, as in a checkout of the main branch.
var thisRelease = sync.OnceValue(func() *release {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	return releaseIn(info)
})

// releaseIn returns the release of the SDK among the modules that a program was built of.
func releaseIn(info *debug.BuildInfo) *release {
	for _, dep := range info.Deps {
		if dep.Path == sdk.Path() && dep.Replace == nil && strings.HasPrefix(dep.Version, "v") && dep.Sum != "" {
			return &release{version: dep.Version, sum: dep.Sum}
		}
	}
	return nil
}

// files returns go.mod and go.sum of a module that requires the release.
func (r *release) files(name string) map[string][]byte {
	require := sdk.Path() + " " + r.version
	// Opening an embedded file cannot fail.
	modSum, _ := dirhash.Hash1([]string{"go.mod"}, func(name string) (io.ReadCloser, error) { return sdk.Files.Open(name) })
	return map[string][]byte{
		"go.mod": []byte("module example.com/" + name + "\n\ngo 1.24\n\nrequire " + require + "\n"),
		"go.sum": []byte(require + " " + r.sum + "\n" + require + "/go.mod " + modSum + "\n"),
	}
}

// findGo returns the go tool. A module without a copy of the SDK needs the release that its
// go.mod requires in the module cache.
func findGo(dir string) (program string, env []string, err error) {
	program, err = exec.LookPath("go")
	if err != nil {
		return "", nil, missing("go", "install Go 1.24 or later (https://go.dev/dl) and put it into the PATH")
	}
	env = []string{"GOFLAGS=", "GOPROXY=off", "GOTOOLCHAIN=local", "GOWORK=off"}
	if !requiresSDK(dir) {
		return program, env, nil
	}
	list := exec.Command(program, "list", "-m", "-e", "-f", "{{.Dir}}", sdk.Path())
	list.Dir, list.Env = dir, append(os.Environ(), env...)
	if out, err := list.Output(); err == nil && strings.TrimSpace(string(out)) == "" {
		return "", nil, fmt.Errorf("the SDK %s is not on this machine: run go mod download in %s once, which fetches it", sdk.Path(), dir)
	}
	return program, env, nil
}

// requiresSDK reports whether a module in Go has no copy of the SDK and names a release.
func requiresSDK(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(sdkDir))); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && strings.Contains(string(text), sdk.Path()+" v")
}
