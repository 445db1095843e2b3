package githttp

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"talon/host/gitrepo"
)

func TestAcceptsGzip(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "gzip": true, "deflate, gzip": true, "br;q=1.0, GZIP ; q=0.5": true, "x-gzip": true, "*": true,
		"gzip;q=0": false, "gzip; q=0.000, *": false, "*;q=0": false, "gzipped": false, "deflate, br": false,
		"gzip;q=nonsense": false, "gzip;level=9": true, ";;;,,,": false,
	} {
		if got := acceptsGzip(http.Header{"Accept-Encoding": {text}}); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if !acceptsGzip(http.Header{"Accept-Encoding": {"deflate", "gzip"}}) {
		t.Error("the second line does not count")
	}
}

// The refs of a repository that has many come compressed to whom can read that, in
// every version of the protocol; those of one that has few do not.
func TestCompressedRefs(t *testing.T) {
	s := newSite(t, nil)
	for _, repo := range []struct {
		name, path string
		many       int
		small      bool
	}{{name: "few", many: 1, small: true}, {name: "many", many: 200}} {
		_, url := s.repo(repo.name, gitrepo.SHA1)
		repo.path = strings.TrimPrefix(url, s.url)
		dir := work(t, gitrepo.SHA1)
		refs := []string{"push", "-q", s.url + repo.path}
		for i := range repo.many {
			refs = append(refs, fmt.Sprintf("main:refs/heads/branch-%d", i))
		}
		git(t, dir, refs...)
		for _, service := range []string{"git-upload-pack", "git-receive-pack"} {
			for _, version := range []string{"version=0", "version=1", "version=2"} {
				ask := func(encoding string) *http.Response {
					h := http.Header{"Git-Protocol": {version}, "Accept-Encoding": {encoding}}
					resp := s.request("GET", repo.path+"/info/refs?service="+service, h, nil)
					if got := resp.Header.Get("Vary"); got != "Accept-Encoding" {
						t.Errorf("Vary is %q", got)
					}
					return resp
				}
				plain := ask("identity")
				want, err := io.ReadAll(plain.Body)
				if err != nil || plain.Header.Get("Content-Encoding") != "" {
					t.Fatal(plain.Header, err)
				}
				packed := ask("gzip, deflate, br")
				got, err := io.ReadAll(packed.Body)
				if err != nil {
					t.Fatal(err)
				}
				encoding := packed.Header.Get("Content-Encoding")
				if large := len(want) >= gzipFrom; (encoding == "gzip") != large || repo.small && large {
					t.Errorf("%s %s %s: %d bytes come as %q", repo.path, service, version, len(want), encoding)
				}
				if encoding == "gzip" {
					if len(got) > len(want)/2 {
						t.Errorf("%d bytes of %d are left", len(got), len(want))
					}
					z, err := gzip.NewReader(bytes.NewReader(got))
					if err != nil {
						t.Fatal(err)
					}
					if got, err = io.ReadAll(z); err != nil {
						t.Fatal(err)
					}
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%s %s %s: got %.100q, want %.100q", repo.path, service, version, got, want)
				}
			}
		}
		// git asks for it by itself, and reads it.
		if out := git(t, dir, "ls-remote", s.url+repo.path); strings.Count(out, "refs/heads/") != repo.many {
			t.Errorf("git reads %d refs of %d", strings.Count(out, "refs/heads/"), repo.many)
		}
	}
}
