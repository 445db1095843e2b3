package web

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestProgramsGetNoPages sends what programs send to paths that take nothing.
func TestProgramsGetNoPages(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct{ path, kind, accept, want string }{
		{"/", "application/nostr+json+rpc", "", "application/nostr+json+rpc"},
		{"/x.git/info/lfs/objects/batch", "application/vnd.git-lfs+json; charset=utf-8", "application/vnd.git-lfs+json", "application/vnd.git-lfs+json"},
		{"/upload", "application/json", "", "application/json"},
		{"/upload", "", "application/json", "application/json"},
		{"/x.git/git-upload-pack", "application/x-git-upload-pack-request", "", "text/plain; charset=utf-8"},
		{"/upload", "image/png", "", "text/plain; charset=utf-8"},
	} {
		req := httptest.NewRequest(http.MethodPost, tt.path, strings.NewReader("{}"))
		req.Header.Set("Content-Type", tt.kind)
		req.Header.Set("Accept", tt.accept)
		answer := httptest.NewRecorder()
		w.ServeHTTP(answer, req)
		if got := answer.Header().Get("Content-Type"); got != tt.want || answer.Code != http.StatusNotFound {
			t.Errorf("%+v: got %d of type %q", tt, answer.Code, got)
		}
		if strings.Contains(tt.want, "json") {
			var body map[string]string
			if err := json.Unmarshal(answer.Body.Bytes(), &body); err != nil || body["error"] == "" || body["message"] == "" {
				t.Errorf("%+v: got %q, %v", tt, answer.Body, err)
			}
		}
	}
}
