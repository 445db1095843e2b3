package devnet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"talon/host"
	"talon/sdk/nip19"
)

// epoch is when the first events were signed.
const epoch = 1_760_000_000

// repository is one that lists Talon.
type repository struct {
	owner, keeper, fan user // who announces it, who signs its states, who sends pull requests
	id                 string
	relays, clones     []int // where it is, as the announcement says
	fork               int   // the git server of the fan
	rng                *rand.Rand
	clock              int64
	roots              []*nostr.Event
	refs               map[string]string // that Talon is to have in the end
}

// Repository is the expected final state of a repository of Talon.
type Repository struct {
	Owner, Identifier string // the owner in hex

	Path string            // npub/identifier.git
	Refs map[string]string // by name: branches, tags, and refs/nostr of pull requests
}

// Repositories returns the repositories that list Talon.
func (n *Net) Repositories() []Repository {
	list := make([]Repository, 0, len(n.repos))
	for _, r := range n.repos {
		list = append(list, Repository{Owner: r.owner.public, Identifier: r.id, Path: path(r.owner, r.id), Refs: r.refs})
	}
	return list
}

// script is an event and the relays that get it.
type script struct {
	event  *nostr.Event
	parsed *host.Event // the same
	relays []int
	hosted bool // Talon is to have it
}

// marks of the commits in a repository, and of its one pull request.
const (
	markFirst = iota + 1
	markTagged
	markMain
	markDev
	markPull
)

func (n *Net) newRepository(i int) *repository {
	rng := rand.New(rand.NewPCG(n.cfg.Seed, uint64(i))) //nolint:gosec // the same each time
	who := rng.Perm(len(n.users))
	r := &repository{
		owner: n.users[who[0]], keeper: n.users[who[0]], fan: n.users[who[1]], id: fmt.Sprintf("repo-%05d", i),
		relays: n.listed(rng.Perm(len(n.Relays))), clones: rng.Perm(n.cfg.GitServers)[:n.cfg.ClonesPer],
		rng: rng, clock: epoch + int64(i)*60,
	}
	if n.cfg.GitServers > 0 {
		r.fork = rng.IntN(n.cfg.GitServers)
	}
	if i%4 == 0 { // a maintainer
		r.keeper = n.users[who[2]]
	}
	return r
}

// listed returns the relays that a repository lists, from all in a random order. One of
// them can be relied upon.
func (n *Net) listed(order []int) []int {
	list := order[:n.cfg.RelaysPer]
	if !slices.ContainsFunc(list, n.honest) {
		list[len(list)-1] = order[slices.IndexFunc(order, n.honest)]
	}
	return list
}

func (n *Net) honest(relay int) bool { return n.Relays[relay].honest }

func (r *repository) address() string { return "30617:" + r.owner.public + ":" + r.id }

// at returns the time of the next old event: several are of the same second.
func (r *repository) at() int64 {
	r.clock++
	return epoch + (r.clock-epoch)/3
}

// path is where a repository of somebody is on a server.
func path(p user, id string) string { return p.npub + "/" + id + ".git" }

func (n *Net) url(server int, p user, id string) string {
	return n.Git[server].URL + "/" + path(p, id)
}

func (n *Net) dirOf(server int, p user, id string) string {
	return filepath.Join(n.Git[server].dir, filepath.FromSlash(path(p, id)))
}

// makeRepositories makes the git repositories, and returns the commits by their marks. Without
// git servers the commits are nowhere.
func (n *Net) makeRepositories(ctx context.Context, r *repository) (map[int]string, error) {
	if n.cfg.GitServers == 0 {
		marks := map[int]string{}
		for mark := markFirst; mark <= markPull; mark++ {
			sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", r.address(), mark))
			marks[mark] = hex.EncodeToString(sum[:20])
		}
		return marks, nil
	}
	base := func(s *stream, main, dev bool) {
		s.commit("refs/heads/main", markFirst, 0, r.address())
		if main {
			s.commit("refs/heads/main", markTagged, markFirst, "the second commit of "+r.id)
			s.ref("refs/tags/v1", markTagged)
			s.commit("refs/heads/main", markMain, markTagged, "the third commit of "+r.id)
		}
		if dev {
			s.commit("refs/heads/dev", markDev, markFirst, "what will be "+r.id)
		}
	}
	split := len(r.clones) > 1 && r.rng.Float64() < n.cfg.Split
	for i, server := range r.clones {
		if i > 0 && !split {
			if err := n.fixture.copy(n.dirOf(r.clones[0], r.owner, r.id), n.dirOf(server, r.owner, r.id)); err != nil {
				return nil, err
			}
			continue
		}
		var s stream
		base(&s, !split || i%2 == 0, !split || i%2 == 1)
		if _, err := n.fixture.make(ctx, n.dirOf(server, r.owner, r.id), &s); err != nil {
			return nil, err
		}
	}
	var s stream
	base(&s, true, true)
	s.commit("refs/heads/pull", markPull, markMain, "a pull request to "+r.id)
	return n.fixture.make(ctx, n.dirOf(r.fork, r.fan, r.id), &s)
}

// found makes a repository and all that is said of it.
func (n *Net) found(ctx context.Context, i int) (*repository, []script, error) {
	r := n.newRepository(i)
	commits, err := n.makeRepositories(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	r.refs = map[string]string{"refs/heads/main": commits[markMain], "refs/heads/dev": commits[markDev], "refs/tags/v1": commits[markTagged]}
	w := &writer{net: n, r: r}
	w.announce(r.owner, r.id, r.relays, r.clones, true)
	w.put(r.keeper, 30618, "", r.at(), true, nostr.Tag{"d", r.id}, nostr.Tag{"refs/heads/main", commits[markMain]},
		nostr.Tag{"refs/heads/dev", commits[markDev]}, nostr.Tag{"refs/tags/v1", commits[markTagged]}, nostr.Tag{"HEAD", "ref: refs/heads/main"})
	w.everywhere()
	for k := range n.cfg.Roots {
		switch {
		case k == 0:
			tags := []nostr.Tag{{"c", commits[markPull]}, {"branch-name", "pull"}}
			if n.cfg.GitServers > 0 {
				tags = append(tags, nostr.Tag{"clone", n.url(r.fork, r.fan, r.id)})
			}
			w.root(r.fan, 1618, tags...)
		case k%5 == 1:
			w.root(n.anyone(r.rng), 1617)
		default:
			w.root(n.anyone(r.rng), 1621)
		}
		root := w.last()
		if root.Kind == 1618 {
			r.refs["refs/nostr/"+root.ID] = commits[markPull]
		}
		r.roots = append(r.roots, root)
		for c := range n.cfg.Comments {
			if c%3 == 2 {
				w.put(r.owner, 1630+c%4, "", r.at(), true, nostr.Tag{"e", root.ID, "", "root"}, nostr.Tag{"p", root.PubKey})
				continue
			}
			w.comment(n.anyone(r.rng), fmt.Sprintf("Answer %d. %s", len(w.posts), prose), root, w.last(), r.at())
		}
	}
	w.noise(i, int(float64(len(w.posts))*n.cfg.Noise))
	return r, w.posts, w.err
}

func (n *Net) anyone(rng *rand.Rand) user { return n.users[rng.IntN(len(n.users))] }

// writer signs what is said of a repository. After an error nothing more is said.
type writer struct {
	net   *Net
	r     *repository
	posts []script
	err   error
}

func (w *writer) last() *nostr.Event { return w.posts[len(w.posts)-1].event }

// put signs an event and gives it to some of the repository's relays.
func (w *writer) put(who user, kind int, content string, at int64, withTalon bool, tags ...nostr.Tag) {
	e, err := who.sign(kind, at, content, tags...)
	if err != nil {
		w.err = err
		e = &nostr.Event{}
	}
	some := slices.Clone(w.r.relays)
	w.r.rng.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	some = some[:1+w.r.rng.IntN(len(some))]
	if !slices.ContainsFunc(some, w.net.honest) { // a copy that can be had
		some = append(some, w.r.relays[slices.IndexFunc(w.r.relays, w.net.honest)])
	}
	parsed, err := parse(e)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.posts = append(w.posts, script{e, parsed, some, withTalon})
}

// everywhere gives announcements and states to the relays that are asked first too.
func (w *writer) everywhere() {
	for i := range w.posts {
		for k := range w.net.cfg.Bootstrap {
			if p := &w.posts[i]; !slices.Contains(p.relays, k) {
				p.relays = append(p.relays, k)
			}
		}
	}
}

// announce announces a repository, which lists Talon or does not.
func (w *writer) announce(who user, id string, relays, clones []int, withTalon bool) {
	clone, list := nostr.Tag{"clone"}, nostr.Tag{"relays"}
	if withTalon {
		clone = append(clone, "http://"+w.net.cfg.Talon+"/"+path(who, id))
		list = append(list, "ws://"+w.net.cfg.Talon)
	}
	for _, k := range clones {
		clone = append(clone, w.net.url(k, who, id))
	}
	for _, k := range relays {
		list = append(list, w.net.Relays[k].URL)
	}
	tags := []nostr.Tag{{"d", id}, {"name", "The repository " + id}, {"description", "It was made by talon devnet."}, clone, list}
	if withTalon && w.r.keeper != who {
		tags = append(tags, nostr.Tag{"maintainers", w.r.keeper.public})
	}
	w.put(who, 30617, "", w.r.at(), withTalon, tags...)
}

func (w *writer) root(who user, kind int, tags ...nostr.Tag) {
	text := fmt.Sprintf("Number %d of %s. %s", len(w.posts), w.r.id, prose)
	w.put(who, kind, text, w.r.at(), true, append([]nostr.Tag{
		{"a", w.r.address()}, {"p", w.r.owner.public}, {"subject", fmt.Sprintf("Number %d", len(w.posts))},
	}, tags...)...)
}

// comment answers a root, or an event below it (NIP-22).
func (w *writer) comment(who user, text string, root, parent *nostr.Event, at int64) {
	kind := func(e *nostr.Event) string { return strconv.Itoa(e.Kind) }
	w.put(who, 1111, text, at, true,
		nostr.Tag{"E", root.ID, "", root.PubKey}, nostr.Tag{"K", kind(root)}, nostr.Tag{"P", root.PubKey},
		nostr.Tag{"e", parent.ID, "", parent.PubKey}, nostr.Tag{"k", kind(parent)}, nostr.Tag{"p", parent.PubKey})
}

// prose makes events as long as people's.
const prose = "It happens each time, on two machines, since the last release. The log has nothing about it, and the older version works. I can try a patch if somebody has one."

// noise is what others say: of things that have nothing to do with Talon.
func (w *writer) noise(i, limit int) {
	if limit == 0 {
		return
	}
	who, id := w.net.anyone(w.r.rng), fmt.Sprintf("elsewhere-%05d", i)
	w.announce(who, id, w.r.relays, w.r.clones, false)
	for k := 1; k < limit; k++ {
		if k%2 == 0 {
			w.put(w.net.anyone(w.r.rng), 1, fmt.Sprintf("Good morning %d to all, and to %s.", k, id), w.r.at(), false)
			continue
		}
		w.put(w.net.anyone(w.r.rng), 1621, fmt.Sprintf("Number %d. %s", k, prose), w.r.at(), false,
			nostr.Tag{"a", "30617:" + who.public + ":" + id}, nostr.Tag{"p", who.public})
	}
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
func (s *stream) commit(ref string, number, from int, text string) {
	fmt.Fprintf(&s.b, "commit %s\nmark :%d\n", ref, number)
	for _, who := range []string{"author", "committer"} {
		fmt.Fprintf(&s.b, "%s Devnet <devnet@example.com> %d +0000\n", who, epoch+int64(number))
	}
	fmt.Fprintf(&s.b, "data %d\n%s\n", len(text), text)
	if from > 0 {
		fmt.Fprintf(&s.b, "from :%d\n", from)
	}
	fmt.Fprintf(&s.b, "M 100644 inline file-%d\ndata %d\n%s\n\n", number, len(text), text)
}

func (s *stream) ref(name string, number int) {
	fmt.Fprintf(&s.b, "reset %s\nfrom :%d\n\n", name, number)
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
