package devnet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"talon/host"
	"talon/sdk/nip19"
)

// gitFixture makes bare repositories with the git program.
type gitFixture struct {
	template string // an empty repository, to be copied
}

func newGitFixture(ctx context.Context, dir string) (*gitFixture, error) {
	s := &gitFixture{template: filepath.Join(dir, "template")}
	_, err := runGit(ctx, "", "init", "-q", "--bare", "--template=", "--initial-branch=main", s.template)
	return s, err
}

// make makes a repository from a stream for git fast-import, and returns the objects
// that the stream has marked.
func (s *gitFixture) make(ctx context.Context, dir string, in *stream) (marks map[int]string, err error) {
	if err := s.copy(s.template, dir); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "marks")
	// What a power cut takes is made again: nothing is synced to the disk.
	if _, err := runGit(ctx, in.b.String(), "--git-dir="+dir, "-c", "core.fsync=none", "fast-import", "--quiet", "--export-marks="+file); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("make a repository: %w", err)
	}
	marks = map[int]string{}
	for line := range strings.Lines(string(text)) {
		var n int
		var object string
		if _, err := fmt.Sscanf(line, ":%d %s", &n, &object); err != nil {
			return nil, fmt.Errorf("make a repository: git has marked %q: %w", line, err)
		}
		marks[n] = object
	}
	if err := os.Remove(file); err != nil {
		return nil, fmt.Errorf("make a repository: %w", err)
	}
	return marks, nil
}

// copy makes a repository that is like another.
func (s *gitFixture) copy(from, to string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return fmt.Errorf("copy a repository: %w", err)
	}
	return nil
}

// runGit runs git as somebody without a configuration.
func runGit(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "LC_ALL=C"}
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// stream is what git fast-import reads. Its commits are the same whenever they are
// made: their times are fixed.
type stream struct{ b strings.Builder }

// commit adds one commit to a ref, with a file of its own; from is a mark, or 0.
func (s *stream) commit(ref string, mark, from int, text string) {
	fmt.Fprintf(&s.b, "commit %s\nmark :%d\n", ref, mark)
	for _, who := range []string{"author", "committer"} {
		fmt.Fprintf(&s.b, "%s Devnet <devnet@example.com> %d +0000\n", who, epoch+int64(mark))
	}
	fmt.Fprintf(&s.b, "data %d\n%s\n", len(text), text)
	if from > 0 {
		fmt.Fprintf(&s.b, "from :%d\n", from)
	}
	fmt.Fprintf(&s.b, "M 100644 inline file-%d\ndata %d\n%s\n\n", mark, len(text), text)
}

func (s *stream) ref(name string, mark int) {
	fmt.Fprintf(&s.b, "reset %s\nfrom :%d\n\n", name, mark)
}

// user is somebody with a key.
type user struct {
	secret, public string // hex
	npub           string
}

// users returns those who live in a network.
func users(seed uint64, n int) ([]user, error) {
	list := make([]user, n)
	for i := range list {
		sum := sha256.Sum256(fmt.Appendf(nil, "talon devnet %d person %d", seed, i))
		p := user{secret: hex.EncodeToString(sum[:])}
		public, err := nostr.GetPublicKey(p.secret)
		if err != nil {
			return nil, fmt.Errorf("make a key: %w", err)
		}
		var key host.PubKey
		if !host.ParseHex(key[:], public) {
			return nil, fmt.Errorf("make a key: %q is none", public)
		}
		p.public, p.npub = public, nip19.EncodeNpub(key)
		list[i] = p
	}
	return list, nil
}

// sign makes an event.
func (p user) sign(kind int, at int64, content string, tags ...nostr.Tag) (*nostr.Event, error) {
	if tags == nil {
		tags = nostr.Tags{}
	}
	e := &nostr.Event{Kind: kind, CreatedAt: nostr.Timestamp(at), Content: content, Tags: tags}
	if err := e.Sign(p.secret); err != nil {
		return nil, fmt.Errorf("sign an event: %w", err)
	}
	return e, nil
}
