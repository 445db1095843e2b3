package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"talon/host"
)

// said is what git said of itself: for all repositories of a Root that have the same
// format it is the same.
type said struct {
	mu      sync.Mutex // guards what follows
	fetches [2][]byte  // all of upload-pack's first words in version 2
}

// pushCan is what a push can be here, but for the format. Without push options, and
// without reports of refs that became others.
const pushCan = "report-status delete-refs side-band-64k quiet atomic ofs-delta"

// fetchCan is what a fetch can be here in versions 0 and 1, but for the format and HEAD:
// what git 2.39 says where there are refs.
const fetchCan = "multi_ack thin-pack side-band side-band-64k ofs-delta shallow deepen-since deepen-not deepen-relative " +
	"no-progress include-tag multi_ack_detailed allow-tip-sha1-in-want allow-reachable-sha1-in-want no-done filter"

// AdvertiseRefs returns the ref advertisement of a service without a git process. Git's
// capabilities are read once for all repositories of a format. It reports false where git
// must be asked (see Advertise): for fetches in versions 0 and 1 where there are refs,
// and of repositories that are not as Talon makes them. Before version 2.41, git
// advertises nothing for an empty repository.
func (r *Repo) AdvertiseRefs(ctx context.Context, s Service, v Protocol) ([]byte, bool, error) {
	if err := r.mustExist(); err != nil {
		return nil, false, err
	}
	if r.git.plain {
		return nil, false, nil
	}
	if s == ReceivePack {
		text, err := r.advertisePush(ctx, v)
		return text, err == nil, err
	}
	if v != 2 {
		return r.advertiseEmpty(ctx, v)
	}
	store, borrows, err := r.shared()
	if err != nil || !borrows {
		return nil, false, err
	}
	text, err := r.ownWords(ctx, &r.root.said.fetches[store.format], v)
	return text, err == nil, err
}

// advertiseEmpty says what a fetch can be of a repository without refs. It reports false for
// others.
func (r *Repo) advertiseEmpty(ctx context.Context, v Protocol) ([]byte, bool, error) {
	if info, err := os.Stat(filepath.Join(r.dir, "packed-refs")); err == nil && info.Size() > maxHeader {
		return nil, false, nil // many refs are not read for this
	}
	refs, head, err := r.refFiles(ctx)
	if errors.Is(err, errUnusual) {
		return nil, false, nil
	}
	if err != nil || len(refs) > 0 {
		return nil, false, err
	}
	format, err := r.Format(ctx)
	if err != nil {
		return nil, false, err
	}
	can := fetchCan
	if head != "" {
		can += " symref=HEAD:" + head
	}
	return advertise(v, format, can, noRefs, map[string]string{noRefs[0]: zeros(format)}), true, nil
}

// maxHeader is more than packed-refs has without a ref.
const maxHeader = 80

// noRefs is what stands for the refs of a repository that has none.
var noRefs = []string{"capabilities^{}"}

func zeros(f Format) string { return strings.Repeat("0", idLength(f)) }

// advertisePush lists the refs as git receive-pack does.
func (r *Repo) advertisePush(ctx context.Context, v Protocol) ([]byte, error) {
	format, err := r.Format(ctx)
	if err != nil {
		return nil, err
	}
	refs, err := r.tips(ctx)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(refs))
	if len(names) == 0 {
		names = noRefs
		refs[names[0]] = zeros(format)
	}
	return advertise(v, format, pushCan, names, refs), nil
}

// advertise writes refs and, with the first of them, capabilities.
func advertise(v Protocol, format Format, can string, names []string, refs map[string]string) []byte {
	var text []byte
	if v == 1 {
		text = appendPkt(text, "version 1\n")
	}
	can = "\x00" + can + " object-format=" + format.String() + " agent=talon"
	for _, name := range names {
		text = appendPkt(text, refs[name]+" "+name+can+"\n")
		can = ""
	}
	return append(text, "0000"...)
}

// ownWords asks git what upload-pack says of itself, once.
func (r *Repo) ownWords(ctx context.Context, kept *[]byte, v Protocol) ([]byte, error) {
	r.root.said.mu.Lock()
	defer r.root.said.mu.Unlock()
	if *kept != nil {
		return *kept, nil
	}
	p, err := r.Advertise(ctx, UploadPack, v)
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(p.Out)
	if err := errors.Join(err, p.Wait()); err != nil {
		return nil, err
	}
	*kept = out
	return out, nil
}

// idLength is the length of an object id in hex digits.
func idLength(f Format) int { return [...]int{SHA1: 40, SHA256: 64}[f] }

// appendPkt appends a pkt-line, which is not too long: the name of a ref is bounded.
func appendPkt(text []byte, line string) []byte {
	return append(fmt.Appendf(text, "%04x", len(line)+4), line...)
}

// inherited are the variables of our own environment that a plain git has, as git
// http-backend has those of a web server: who a push is by in reflogs, below which
// refs/namespaces/ all refs are, and where the keys for signed pushes are.
var inherited = []string{"GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_NAMESPACE", "GNUPGHOME"}

// Plain returns a git for a Folder whose repositories are served as git http-backend
// serves them, with and without a work tree, by what their own configuration says. It
// runs no hooks, for those are programs, serves no repository of another user, whose
// configuration could name others, and nothing goes on when a push has ended.
func (g *Git) Plain() *Git {
	plain := *g
	plain.plain = true
	plain.config = [][2]string{
		{"receive.maxInputSize", strconv.FormatInt(g.options.MaxInput, 10)},
		{"gc.autoDetach", "false"},
		{"maintenance.autoDetach", "false"},
	}
	plain.env = environment(plain.config, imposed, g.options)
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			plain.env = append(plain.env, name+"="+value)
		}
	}
	return &plain
}

// ReceivePack starts receive-pack to answer one push, which its user writes to In. In
// reflogs it is anonymous, from an address, where our environment names nobody.
// REQUIRES: the repository is served by a plain git.
func (r *Repo) ReceivePack(ctx context.Context, v Protocol, from netip.Addr) (*Process, error) {
	if err := r.mustExist(); err != nil {
		return nil, err
	}
	env := v.env()
	if _, ok := os.LookupEnv("GIT_COMMITTER_NAME"); !ok {
		env = append(env, "GIT_COMMITTER_NAME=anonymous")
	}
	if _, ok := os.LookupEnv("GIT_COMMITTER_EMAIL"); !ok {
		env = append(env, fmt.Sprintf("GIT_COMMITTER_EMAIL=anonymous@http.%s", from))
	}
	p, err := r.git.start(ctx, r.dir, env, ReceivePack.String(), "--stateless-rpc", ".")
	return p, r.orGone(err)
}

// updatePacked changes many refs by rewriting the file that has all of them: git makes a
// file for each first, which takes seconds under the lock for what anybody may push. All
// change or none, also in a crash: what has a file of its own moves to the one file
// first, as it is. It reports false if git has to do it. REQUIRES: the lock, in a Root,
// where nobody else changes refs.
func (r *Repo) updatePacked(ctx context.Context, updates []host.RefUpdate) (done bool, err error) {
	refs, err := r.readRefs()
	if errors.Is(err, errUnusual) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("update refs: %w", err)
	}
	if err := r.peel(ctx, refs); err != nil {
		return false, nil // one is broken
	}
	at := make(map[string]int, len(refs))
	now := make(map[string]string, len(refs))
	for i, ref := range refs {
		at[ref.Name], now[ref.Name] = i, ref.ID
	}
	var questions []string
	for _, u := range updates {
		id, there := now[u.Ref]
		if u.Old != "" && u.Old != id && (there || !IsZero(u.Old)) {
			return false, fmt.Errorf("update refs: %s is not at %s", u.Ref, u.Old)
		}
		if !IsZero(u.New) {
			questions = append(questions, u.New+"^{"+kindOf(u.Ref)+"}")
		}
	}
	wrong := make(map[string]string)
	if inTheWay(now, updates, wrong); len(wrong) > 0 {
		for name, reason := range wrong {
			return false, fmt.Errorf("update refs: %s: %s", name, reason)
		}
	}
	answers, err := r.ask(ctx, questions)
	if err != nil {
		return false, fmt.Errorf("update refs: %w", err)
	}
	next := slices.Clone(refs)
	for _, u := range updates {
		i, there := at[u.Ref]
		if IsZero(u.New) {
			if there {
				next[i].ID = ""
			}
			continue
		}
		if answers[0] != u.New {
			return false, nil // git says best what is wrong with it
		}
		answers = answers[1:]
		ref := fileRef{Ref: Ref{Name: u.Ref, ID: u.New}, peeled: strings.HasPrefix(u.Ref, "refs/heads/")}
		if there {
			next[i] = ref
		} else {
			next = append(next, ref)
		}
	}
	next = slices.DeleteFunc(next, func(ref fileRef) bool { return ref.ID == "" })
	slices.SortFunc(next, func(a, b fileRef) int { return strings.Compare(a.Name, b.Name) })
	if err := r.peel(ctx, next); err != nil {
		return false, fmt.Errorf("update refs: %w", err)
	}
	if r.locks.nodes != nil && len(r.loose(updates)) > 0 {
		// Git takes their files away under a lock file for each.
		if err := r.PackRefs(ctx); err != nil || len(r.loose(updates)) > 0 {
			return false, err
		}
	} else if err := r.packLoose(refs, updates); err != nil {
		return false, fmt.Errorf("update refs: %w", err)
	}
	if err := r.writePacked(next); err != nil {
		return false, fmt.Errorf("update refs: %w", err)
	}
	return true, nil
}

// kindOf is what a ref must point to: branches name commits, others what they like.
func kindOf(ref string) string {
	if strings.HasPrefix(ref, "refs/heads/") {
		return "commit"
	}
	return "object"
}

// loose are the files of those of the refs that have one of their own.
func (r *Repo) loose(updates []host.RefUpdate) (loose []string) {
	for _, u := range updates {
		path := filepath.Join(r.dir, u.Ref)
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			loose = append(loose, path)
		}
	}
	return loose
}

// packLoose takes the refs that are updated out of files of their own, if some have one.
func (r *Repo) packLoose(refs []fileRef, updates []host.RefUpdate) error {
	loose := r.loose(updates)
	if len(loose) == 0 {
		return nil
	}
	if err := r.writePacked(refs); err != nil {
		return err
	}
	folders := make(map[string]bool)
	for _, path := range loose {
		if err := os.Remove(path); err != nil {
			return err
		}
		folders[filepath.Dir(path)] = true
	}
	for folder := range folders {
		// A file that comes back would count, and what it says is old by then.
		if err := syncDir(folder); err != nil {
			return err
		}
	}
	return nil
}

// writePacked writes all refs to one file, durably.
func (r *Repo) writePacked(refs []fileRef) error {
	var text bytes.Buffer
	text.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for _, ref := range refs {
		text.WriteString(ref.ID + " " + ref.Name + "\n")
		if ref.Peeled != "" {
			text.WriteString("^" + ref.Peeled + "\n")
		}
	}
	return r.replaceFile("packed-refs", text.Bytes())
}

// replaceFile rewrites a file of the repository, durably, as git does: under its lock
// file.
func (r *Repo) replaceFile(name string, text []byte) error {
	path := filepath.Join(r.dir, name)
	const exclusive = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := os.OpenFile(path+".lock", exclusive, 0o644)
	if errors.Is(err, fs.ErrExist) {
		// It is of a git that was killed, unless another node has the lock by now.
		if err := errors.Join(r.locks.check(r.dir), os.RemoveAll(path+".lock")); err != nil {
			return err
		}
		f, err = os.OpenFile(path+".lock", exclusive, 0o644)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = r.locks.check(r.dir)
	}
	if err == nil {
		err = os.Rename(path+".lock", path)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(path+".lock"))
	}
	return syncDir(r.dir)
}
