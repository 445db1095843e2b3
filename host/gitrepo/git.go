package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Options are what an operator may choose for every repository.
type Options struct {
	// MaxInput is the largest pack, in bytes, that a push or fetch may bring.
	MaxInput int64

	// AllocBytes is the largest piece of memory that a git process may ask for at
	// once. It ends packs that inflate to more than they look like. A process that
	// works on a push may have four times as much in all, on Linux.
	AllocBytes int64

	// Pack bounds the work that a pack may be, and CPU the processor time: CPU for each
	// git that works on a push or a fetch, and a second more for each half MiB of it.
	Pack PackLimits
	CPU  time.Duration

	// DefaultBranch is the branch that HEAD of a new repository names, without
	// refs/heads/; master if it is empty.
	DefaultBranch string
}

// DefaultOptions are the options of a server that is told nothing else.
var DefaultOptions = Options{MaxInput: 2 << 30, AllocBytes: 512 << 20, Pack: DefaultPackLimits, CPU: 30 * time.Second}

// Git is the git program and the environment that it runs in. It is immutable.
type Git struct {
	program string
	options Options
	config  [][2]string
	env     []string
	plain   bool // see Plain
}

// Find looks for the program in PATH, or at a path, and asks for its version.
func Find(ctx context.Context, program string, options Options) (*Git, error) {
	if options.MaxInput <= 0 || options.AllocBytes <= 0 {
		return nil, errors.New("set up git: the sizes of packs and of memory must be positive")
	}
	options.Pack, options.CPU = cmp.Or(options.Pack, DefaultPackLimits), cmp.Or(options.CPU, DefaultOptions.CPU)
	if err := options.Pack.check(); err != nil {
		return nil, err
	}
	options.DefaultBranch = cmp.Or(options.DefaultBranch, "master")
	if !IsRef(branches + options.DefaultBranch) {
		return nil, fmt.Errorf("set up git: %.100q is not the name of a branch", options.DefaultBranch)
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("find git: %w; install git 2.39 or later", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("find git: %w", err)
	}
	g := &Git{program: path, options: options, config: config(options)}
	g.env = environment(g.config, append(imposed, trusted), options)
	out, err := g.run(ctx, "/", nil, "version")
	if err != nil {
		return nil, fmt.Errorf("ask git for its version: %w", err)
	}
	version := strings.TrimSpace(strings.TrimPrefix(string(out), "git version "))
	if !recent(version) {
		return nil, fmt.Errorf("%s is version %.40q; install git 2.39 or later", path, version)
	}
	return g, nil
}

// Program is the path of the git program. It does not depend on the working folder.
func (g *Git) Program() string { return g.program }

// recent reports whether a version such as 2.39.5 or 2.45.1.windows.1 is new enough.
func recent(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(major)
	if err != nil {
		return false
	}
	b, err := strconv.Atoi(minor)
	return err == nil && (a > 2 || a == 2 && b >= 39)
}

// config is what git is told about every repository, in its own words. Init writes
// it to the repository as well, for whoever runs git there by hand.
func config(o Options) [][2]string {
	return [][2]string{
		// GRASP-01. The first one also clears the other two, so it is the first.
		{"uploadpack.allowAnySHA1InWant", "false"},
		{"uploadpack.allowTipSHA1InWant", "true"},
		{"uploadpack.allowReachableSHA1InWant", "true"},
		{"uploadpack.allowFilter", "true"},
		// It walks all trees for a blob that the client chooses.
		{"uploadpackfilter.sparse:oid.allow", "false"},

		{"receive.maxInputSize", strconv.FormatInt(o.MaxInput, 10)},
		// Packs stay packs: they are streamed to disk whatever is in them, and can
		// be shared by a link.
		{"transfer.unpackLimit", "1"},
		{"receive.unpackLimit", "1"},
		{"fetch.unpackLimit", "1"},
		{"receive.advertisePushOptions", "false"},
		{"receive.updateServerInfo", "false"},
		{"receive.denyDeleteCurrent", "ignore"}, // the authoriser decides
		{"receive.denyDeletes", "false"},
		{"receive.denyNonFastForwards", "false"},
		{"receive.shallowUpdate", "false"},
		{"receive.autogc", "false"},

		// Maintenance is the host's; see Collect.
		{"gc.auto", "0"},
		{"maintenance.auto", "false"},
		{"core.logAllRefUpdates", "false"},

		// A ref that was answered is on disk.
		{"core.fsync", "objects,derived-metadata,reference"},

		// Larger objects are streamed, and not held in memory.
		{"core.bigFileThreshold", "64m"},
		{"pack.windowMemory", "128m"},
	}
}

// imposed is what no repository's own configuration may change, because it names
// programs or trust.
var imposed = [][2]string{
	{"core.hooksPath", os.DevNull},
	{"core.alternateRefsCommand", "true"},
	{"core.fsmonitor", "false"},
	{"protocol.allow", "never"},
	{"uploadpack.advertiseBundleURIs", "false"},
}

// trusted has git work on the repositories of other users. Their configuration is not
// believed in what runs programs.
var trusted = [2]string{"safe.directory", "*"}

func environment(config, imposed [][2]string, o Options) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"),
		"LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_ASKPASS=false",
		"GIT_ALLOC_LIMIT=" + strconv.FormatInt(o.AllocBytes, 10),
	}
	n := 0
	for _, list := range [][][2]string{config, imposed} {
		for _, pair := range list {
			env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, pair[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, pair[1]))
			n++
		}
	}
	return append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n))
}
