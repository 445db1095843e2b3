package world

import (
	"encoding/hex"
	"fmt"

	"talon/cmd/internal/lab/scenario"
	"talon/host"
)

// Reality makes what a simulation goes without: servers that listen, keys that sign, commits of git. A
// world without one has names and hashes in their place.
type Reality interface {
	// Listen gives the relays, git servers and Talons of a world their URLs.
	Listen(w *World) error

	// Key returns the public key of somebody, from random bytes.
	Key(random [32]byte) (host.PubKey, error)

	// Sign fills in the id, the signature and the JSON of an event whose author is one of its keys.
	Sign(e *host.Event) error

	// Path returns the place of somebody's repository on a server, from the first slash on.
	Path(owner host.PubKey, d string) string

	// Commit returns the id of a commit of a repository.
	Commit(repo *Repo, branch string, number int) string
}

// The branches of the commits of a repository. Commit 0 of main is the first of all. Each commit of main
// has the one before as its parent, and all others have commit 0 of main.
const (
	Main  = "main"
	Other = "other" // further branches
	Pull  = "pull"  // pull requests
)

// MoreRef returns the name of a ref that a state has in addition to main, and its commit: a tag of commit 0
// of main, a branch of its own, the next tag.
func MoreRef(i int) (name, branch string, number int) {
	if i%2 == 0 {
		return fmt.Sprintf("refs/tags/v%d", 1+i/2), Main, 0
	}
	return fmt.Sprintf("refs/heads/other-%d", 1+i/2), Other, i
}

// DrawReal makes the world of a seed, with the keys and servers of a Reality. One run may go on with it:
// see [World.Say].
func DrawReal(s *scenario.Scenario, seed uint64, real Reality) (*World, error) {
	return draw(s, seed, real)
}

// Say publishes one more event at a time that nothing drawn comes after: a root, or a comment. It
// changes the world, so nobody else may use it then.
func (w *World) Say(at int64) (*Event, error) {
	p := w.publisher
	repo := p.repo(p.said, at)
	on := p.message(p.said, repo, at)
	if on == nil || p.said.chance(0.25) {
		p.root(repo, at)
	} else {
		p.comment(repo, on, at)
	}
	e := w.Events[len(w.Events)-1]
	e.Number = uint32(len(w.Events) - 1)
	w.ByID[e.ID] = e
	return e, p.err
}

// Place returns the path of a repository on the servers that it names, from the first slash on.
func (w *World) Place(r *Repo) string { return w.path(w.publisher.owners[r.Owner], r.D) }

// OwnerKey returns the key of a repository's owner.
func (w *World) OwnerKey(r *Repo) host.PubKey { return w.publisher.owners[r.Owner] }

func (w *World) path(owner host.PubKey, d string) string {
	if w.real == nil {
		return "/x/" + d + ".git"
	}
	return w.real.Path(owner, d)
}

func (w *World) sign(e *host.Event) error {
	if w.real == nil {
		return Sign(e)
	}
	return w.real.Sign(e)
}

// commit returns the id of a commit. In a simulation it is random; a Reality draws the same numbers, so
// that all else of its world is the same.
func (w *World) commit(repo *Repo, branch string, number int, random stream) string {
	var id [20]byte
	for i := range id {
		id[i] = byte(random.Uint32())
	}
	if w.real != nil {
		return w.real.Commit(repo, branch, number)
	}
	return hex.EncodeToString(id[:])
}
