package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"talon/cmd/internal/gitcheck"
	"talon/host"
	"talon/host/admin"
	"talon/host/config"
	"talon/host/daemon"
	"talon/host/gitrepo"
	"talon/host/schnorr"
	"talon/sdk/grasp"
)

func checkCommand() *cobra.Command {
	c := new(check)
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Verify the database and the repositories",
		Long: `Verify the database and the repositories.

Database: its pages, the id and signature of every event, every index against the events, replaceable keys and tombstones.
Repositories: each has an announcement, and each announcement that lists this server has a repository. HEAD, branches and tags are
those of its newest state event, refs/nostr/ those of its pull requests, what they reach is there, and nothing is left from a crash.
--repositories says how far that goes: "refs" as described, "objects" reads every byte of every object as well, "no" leaves git out.

It changes nothing and may run while the server does. Each problem is a line; the exit code is 1 if there was any. With --repair it
asks the running server to search other git servers for data that is lost.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().Var(&c.depth, "repositories", "`what` to look at of the repositories: refs, objects or no")
	cmd.Flags().BoolVar(&c.repair, "repair", false, "have the running server search for lost git data")
	cmd.Flags().DurationVar(&c.limit, "object-time", 10*time.Minute, "most `time` for the objects of one repository")
	return configured(cmd, config.Always|config.Checking, c.run)
}

// check is one run of talon check.
type check struct {
	depth    checkDepth
	limit    time.Duration
	progress *progress
	report   func(problem string)
	problems int

	repair bool
	lost   map[grasp.Repo]bool
}

func (c *check) run(cmd *cobra.Command, cfg *config.Config, log *slog.Logger, _ []string) (err error) {
	if c.limit <= 0 {
		return errors.New("the value of option object-time is wrong: it must be positive")
	}
	db, err := daemon.OpenStoreReadOnly(cmd.Context(), cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c.progress = newProgress(cmd.ErrOrStderr())
	c.report = func(problem string) {
		c.problems++
		c.progress.end()
		fmt.Fprintln(cmd.OutOrStdout(), problem)
	}
	checked, err := c.events(cmd, db)
	if err != nil {
		return fmt.Errorf("check the database: %w", err)
	}
	wrong := c.problems
	repositories, err := c.repositories(cmd.Context(), cfg, db)
	if err == nil && c.depth != checkNothing {
		err = c.gitUsage(cmd.Context(), cfg, db)
	}
	c.progress.end()
	if err != nil {
		return err
	}
	also := ""
	if repositories > 0 {
		also = fmt.Sprintf(" and %d repositories", repositories)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d events%s checked, %d problems\n", checked, also, c.problems)
	if err := c.search(cmd, cfg); err != nil {
		return err
	}
	switch {
	case wrong > 0:
		return errors.New("the database has problems")
	case c.problems > 0:
		return errors.New("the repositories have problems")
	}
	return nil
}

func (c *check) events(cmd *cobra.Command, db daemon.Store) (int64, error) {
	verified := 0
	checked, err := db.Check(cmd.Context(), func(e *host.Event) error {
		verified++
		c.progress.show(func() string { return fmt.Sprintf("%d events verified", verified) })
		return schnorr.Verify(e)
	}, c.report)
	c.progress.end()
	return checked, err
}

// checkDepth is how far talon check looks into repositories.
type checkDepth uint8

const (
	checkRefs checkDepth = iota
	checkObjects
	checkNothing
)

func (d checkDepth) String() string { return [...]string{"refs", "objects", "no"}[d] }
func (checkDepth) Type() string     { return "" }

func (d *checkDepth) Set(s string) error {
	for _, v := range []checkDepth{checkRefs, checkObjects, checkNothing} {
		if s == v.String() {
			*d = v
			return nil
		}
	}
	return errors.New("it is refs, objects or no")
}

// recheckAfter is how long a push or a release gets to finish what looks like a problem.
const recheckAfter = 2 * time.Second

// repositories checks those of the data folder, and returns how many there are.
func (c *check) repositories(ctx context.Context, cfg *config.Config, db daemon.Store) (int, error) {
	announced, prs := filepath.Join(cfg.GitFolder(), "git"), filepath.Join(cfg.GitFolder(), "git-prs")
	if c.depth == checkNothing {
		return 0, nil
	}
	service, err := grasp.ParseService(cfg.Service())
	if err != nil {
		return 0, fmt.Errorf("check the repositories: %w", err)
	}
	git, err := gitrepo.Find(ctx, cfg.Git, gitrepo.DefaultOptions)
	if err != nil {
		return 0, fmt.Errorf("check the repositories: %w", err)
	}
	program := inspector(git.Program())
	check := gitcheck.Config{
		Git: git, Announced: announced, PRs: prs, Events: db, Service: service,
		Connected: program.connected, Limit: c.limit, RecheckAfter: recheckAfter, Now: time.Now,
		Progress: func(n int) { c.progress.show(func() string { return fmt.Sprintf("%d repositories checked", n) }) },
	}
	if c.depth == checkObjects {
		check.Intact = program.intact
	}
	c.lost = make(map[grasp.Repo]bool)
	return gitcheck.Run(ctx, check, func(p gitcheck.Problem) {
		c.report(p.String())
		if p.Lost != (grasp.Repo{}) {
			c.lost[p.Lost] = true
		}
	})
}

// search asks the server to search for lost git data, if --repair says so.
func (c *check) search(cmd *cobra.Command, cfg *config.Config) error {
	if !c.repair || len(c.lost) == 0 {
		return nil
	}
	server, err := runningServer(cfg)
	if err != nil {
		return err
	}
	for repo := range c.lost {
		switch err := server.HuntNow(cmd.Context(), repo.Address(), repo.Identifier); {
		case errors.Is(err, admin.ErrNoServer):
			return noServer(err)
		case err != nil:
			return fmt.Errorf("search for the git data of %s: %w", plain(repo.Address()), err)
		}
	}
	fmt.Fprintf(cmd.OutOrStdout(), "the server searches for the git data of %d repositories: see talon hunt status\n", len(c.lost))
	return nil
}

// inspector is the path of the git program.
type inspector string

// connected walks from all refs to all that they reach. Git stops at the first object
// that is absent or cannot be read.
func (git inspector) connected(ctx context.Context, dir string) ([]string, error) {
	return git.inspect(ctx, dir, func(string) bool { return true }, "rev-list", "--objects", "--all", "--quiet")
}

// intact reads every object. It ignores faults in the format of objects: a repository has
// the objects that its maintainers have signed, and the server does not judge them either.
func (git inspector) intact(ctx context.Context, dir string) ([]string, error) {
	return git.inspect(ctx, dir, func(line string) bool {
		for _, about := range []string{"error in ", "warning in ", "notice: ", "dangling ", "warning: "} {
			if strings.HasPrefix(line, about) {
				return false
			}
		}
		return true
	}, "fsck", "--full", "--no-dangling", "--no-reflogs", "--no-progress")
}

// inspectBytes is how much is read of what git says about one repository.
const inspectBytes = 64 << 10

// inspect runs git in a repository without the configuration of the machine or the
// user, programs that the repository names, or the network. It returns what git says
// is wrong. Git takes no lock for these commands.
func (git inspector) inspect(ctx context.Context, dir string, wrong func(line string) bool, args ...string) ([]string, error) {
	cmd := exec.CommandContext(ctx, string(git), append([]string{
		"--git-dir=.", "-c", "safe.directory=*", "-c", "core.hooksPath=" + os.DevNull, "-c", "core.fsmonitor=false",
		"-c", "core.alternateRefsCommand=true", "-c", "protocol.allow=never",
		"-c", "core.commitGraph=false", // it would stand for commits that are absent
	}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0",
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 3 * time.Second
	out := &bounded{max: inspectBytes}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil && !errors.As(err, &exit):
		return nil, fmt.Errorf("git %s: %w", args[0], err)
	}
	var lines []string
	said := false
	for line := range strings.Lines(out.kept.String()) {
		line = strings.TrimSpace(line)
		said = said || line != ""
		if line != "" && wrong(line) {
			lines = append(lines, "git "+args[0]+": "+line)
		}
	}
	if exit != nil && !said {
		lines = append(lines, fmt.Sprintf("git %s: %v", args[0], exit))
	}
	return lines, nil
}
