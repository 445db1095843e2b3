package githttp

import (
	"net/http/httptest"
	"testing"
)

// TestIsPath finds git's endpoints directly below a repository only.
func TestIsPath(t *testing.T) {
	two := func(parts []string) bool { return len(parts) == 2 }
	for path, want := range map[string]bool{
		"/a/b/info/refs": true, "/a/b/git-upload-pack": true, "/a/b/info/lfs/objects/batch": true,
		"/a/b/blob/main/info/refs": false, "/a/b/blob/main/git-receive-pack": false, "/a/b/raw/main/info/lfs/x": false, "/a/info/refs": false, "/a/b/c": false,
	} {
		if got := IsGit("/", two, httptest.NewRequest("GET", path, nil)); got != want {
			t.Errorf("%s is for git: %v", path, got)
		}
		if got := IsGit("/", nil, httptest.NewRequest("GET", path, nil)); !got && want {
			t.Errorf("%s is not for git below any path", path)
		}
	}
}
