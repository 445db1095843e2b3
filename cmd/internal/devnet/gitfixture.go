package devnet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// gitFixture makes bare repositories with the git program.
type gitFixture struct {
	template string // an empty repository, to be copied
}

// make makes a repository from a stream for git fast-import, and returns the objects
// that the stream has marked.
func (s *gitFixture) make(ctx context.Context, dir string, in *stream) (marks map[int]string, err error) {
	if err := s.copy(s.template, dir); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "marks")
	// Nothing is synced to the disk: after a power cut, the fixture is made again.
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

func newGitFixture(ctx context.Context, dir string) (*gitFixture, error) {
	s := &gitFixture{template: filepath.Join(dir, "template")}
	_, err := runGit(ctx, "", "init", "-q", "--bare", "--template=", "--initial-branch=main", s.template)
	return s, err
}
