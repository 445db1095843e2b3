package testkit

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// WriteProgram writes an executable file. No other process may start during the write: it would
// have the file open for writing until it executes its program, and running the file would fail
// with ETXTBSY.
func WriteProgram(tb testing.TB, path, text string) {
	tb.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		tb.Fatal(err)
	}
}

// Kept returns the folder in which test processes keep for later ones what takes long to make. Each entry
// is a folder named for all that makes it what it is.
func Kept() string { return kept }

// kept is looked up before tests give themselves another place for what they cache.
var kept = func() string {
	if dir := os.Getenv("TALON_TEST_CACHE"); dir != "" {
		return dir
	}
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "talon-test")
	}
	return filepath.Join(os.TempDir(), fmt.Sprint("talon-test-", os.Getuid()))
}()

// NewRepository makes an empty repository with a work tree, and returns its
// folder. The options are those of git init.
func NewRepository(t testing.TB, options ...string) string {
	t.Helper()
	dir := t.TempDir()
	Git(t, dir, append([]string{"init", "-q", "-b", "main"}, options...)...)
	return dir
}

// Commit commits all that is in a folder, and a file with a text, and returns the commit's id. The same
// texts make the same ids.
func Commit(t testing.TB, dir, text string) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	Git(t, dir, "add", ".")
	Git(t, dir, "-c", "maintenance.auto=false", "commit", "-q", "-m", text)
	return Git(t, dir, "rev-parse", "HEAD")
}

// Git runs git in a folder and returns what it prints.
func Git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := TryGit(t.Context(), dir, args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// TryGit does what Git does, and returns the error.
func TryGit(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := GitCommand(ctx, dir, args...).CombinedOutput()
	return string(out), err
}

// GitCommand returns git as somebody runs it who has no configuration, no
// terminal, and always the same time.
func GitCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000", "no_proxy=127.0.0.1")
	return cmd
}

// Forward answers a request as the server at a URL does, with what change makes of the body
// of the answer to a POST. If the server does not answer, neither does Forward.
func Forward(w http.ResponseWriter, r *http.Request, server string, change func(body []byte) []byte) {
	request, err := http.NewRequestWithContext(r.Context(), r.Method, server+r.URL.RequestURI(), r.Body)
	if err != nil {
		return
	}
	request.Header = r.Header.Clone()
	resp, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	if r.Method == http.MethodPost {
		body = change(body)
	}
	_, _ = w.Write(body)
}
