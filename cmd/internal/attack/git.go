package attack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// runGit runs git as somebody without configuration, with an input, and returns what it prints.
func runGit(ctx context.Context, dir, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000", "no_proxy=127.0.0.1")
	// Its helper for HTTP ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	if err != nil {
		text := strings.TrimSpace(string(out))
		if i := strings.LastIndexByte(text, '\n'); len(text) > 300 {
			text = text[max(i, len(text)-300):]
		}
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", fmt.Errorf("git %s: %w: %s", args[len(args)-1], err, text)
	}
	return strings.TrimSpace(string(out)), nil
}

// remote runs git against the server, from an address.
func remote(ctx context.Context, dir, address string, args ...string) error {
	_, err := runGit(ctx, dir, "", append([]string{"-c", "http.extraHeader=X-Forwarded-For: " + address, "-c", "maintenance.auto=false"}, args...)...)
	return err
}

func push(ctx context.Context, dir, url, address, commit string) error {
	return remote(ctx, dir, address, "push", "-q", url, commit+":refs/heads/main")
}

func lsRemote(ctx context.Context, dir, url, address string) error {
	return remote(ctx, dir, address, "ls-remote", url)
}

// clone clones into a new folder, and removes it.
func clone(ctx context.Context, dir, url, address string) error {
	to, err := os.MkdirTemp(dir, "clone")
	if err != nil {
		return err
	}
	defer os.RemoveAll(to)
	return remote(ctx, dir, address, "clone", "-q", "--bare", url, filepath.Join(to, "r"))
}

// makeRepository makes a bare repository with n commits one on the other, each with a file. The
// first commit also has a file "large" with the given bytes. It returns the commits, the first
// one first.
func makeRepository(ctx context.Context, dir string, n int, large []byte) ([]string, error) {
	if _, err := runGit(ctx, filepath.Dir(dir), "", "init", "-q", "--bare", dir); err != nil {
		return nil, err
	}
	var b strings.Builder
	for i := range n {
		text := fmt.Sprintf("This is version %d.\n", i)
		fmt.Fprintf(&b, "commit refs/heads/c%d\ncommitter a <a@example.com> %d +0000\ndata %d\n%s", i, 1700000000+i, len(text), text)
		if i > 0 {
			fmt.Fprintf(&b, "from refs/heads/c%d\n", i-1)
		}
		fmt.Fprintf(&b, "M 100644 inline file\ndata %d\n%s\n", len(text), text)
		if i == 0 && large != nil {
			fmt.Fprintf(&b, "M 100644 inline large\ndata %d\n%s\n", len(large), large)
		}
	}
	if _, err := runGit(ctx, dir, b.String(), "-c", "core.fsync=none", "fast-import", "--quiet"); err != nil {
		return nil, err
	}
	out, err := runGit(ctx, dir, "", "for-each-ref", "--format=%(refname:lstrip=2) %(objectname)")
	if err != nil {
		return nil, err
	}
	commits := make([]string, n)
	for line := range strings.Lines(out) {
		var i int
		var id string
		if _, err := fmt.Sscanf(line, "c%d %s", &i, &id); err != nil || i >= n {
			return nil, fmt.Errorf("read the commits of %s: unexpected line %q", dir, line)
		}
		commits[i] = id
	}
	return commits, nil
}
