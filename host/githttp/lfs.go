package githttp

import (
	"io"
	"net/http"
)

// lfsPath begins the addresses of Git LFS below a repository.
const lfsPath = "/info/lfs/"

// noLFS answers a client of Git LFS. Status 501 ends its wish for locks as well, without a
// further line for its user.
func noLFS(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusNotImplemented)
	_, _ = io.WriteString(w, `{"message":"This server keeps no LFS objects. Set lfs.url to a server that does, for example with git config -f .lfsconfig lfs.url https://lfs.example.com/demo"}`+"\n")
}
