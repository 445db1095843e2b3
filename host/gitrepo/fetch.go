package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	maxFetchIDs  = 10_000 // objects that one fetch asks for
	maxFetchRefs = 1_000  // refs that one fetch asks for, of a server that refuses objects
	maxNotThere  = 2      // objects that one fetch leaves out, one after the other
	maxSiblings  = 8      // repositories of the identifier that what is here is looked up in
	maxParts     = 24     // fetches that find out which objects are refused
)

// Fetch fetches objects, with all that they refer to, from a git server. It returns those
// of ids that the server has. It changes no ref: until one reaches the objects, Collect
// may drop them once they are old.
//
// The URL is one of http that the caller answers for: what it connects to, where that
// redirects, how many bytes come and how long it takes (the context) are in the
// caller's hands. Git follows no redirect, and has neither proxy nor password.
//
// Objects come into a quarantine next to the repositories. Git checks them as it checks a
// push, and whether all of them are there. Only then they move to the shared store of the
// identifier, under the repository's lock.
// REQUIRES: the caller does not hold the lock.
//
// Git asks for thin packs, and completes them; Source bounds by how much. A server cannot make
// a few bytes into copies of all that is here.
//
// Where some of the objects are refused for what is in them, the others come all the
// same, and the error wraps a *RefusedObjects.
//
// It is no error if the server lacks all of the objects. After an error, what is returned
// has come all the same.
func (r *Repo) Fetch(ctx context.Context, from Source, ids ...string) (found []string, err error) {
	if r.root == nil {
		return nil, errFolder
	}
	url := from.URL
	if !strings.HasPrefix(url, "http://") || strings.ContainsAny(url, " \n\r\t\x00") {
		return nil, errors.New("fetch objects: not an http URL")
	}
	format, err := r.Format(ctx)
	if err != nil {
		return nil, fmt.Errorf("fetch objects: %w", err)
	}
	for _, id := range ids {
		if !IsID(id) || IsZero(id) {
			return nil, fmt.Errorf("fetch objects: %.80q is not the id of an object", id)
		}
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	// Nothing here can have an id of the other format.
	ids = slices.DeleteFunc(ids, func(id string) bool { return len(id) != idLength(format) })
	if len(ids) == 0 {
		return nil, nil
	}
	if len(ids) > maxFetchIDs {
		ids = ids[:maxFetchIDs]
	}
	q, err := r.newFetchQuarantine(ctx, format, from)
	if err != nil {
		return nil, fmt.Errorf("fetch objects: %w", err)
	}
	defer q.remove()
	parts := maxParts
	refused, fetching := q.fetchParts(ctx, ids, &parts)
	if refused != nil {
		fetching = errors.Join(fetching, refused)
	}
	if err = q.checkCompleted(); err == nil {
		err = checkDepths(ctx, q.dir, format, r.git.options.Pack.Depth)
	}
	if err == nil {
		err = r.git.checkBarred(q.dir, format)
	}
	if err == nil {
		found, err = q.whole(ctx, ids)
	}
	if err == nil && len(found) > 0 {
		err = q.migrate(ctx)
	}
	if err != nil {
		found = nil
	}
	if err = errors.Join(fetching, err); err != nil {
		return found, fmt.Errorf("fetch objects: %w", err)
	}
	return found, nil
}

// Store returns the path of the repository's object store: repositories with the same
// store share them.
func (r *Repo) Store() string {
	if s, borrows, err := r.shared(); borrows && err == nil {
		return s.dir
	}
	return r.dir
}

// fetchQuarantine is the quarantine of one fetch. Its refs are those of the repository and of
// some others of the identifier, so that git asks only for what is new.
type fetchQuarantine struct {
	quarantine
	env  []string
	from Source
}

// source is the name of the server in the quarantine's configuration. The URL is there and not
// in the arguments because every user of the machine can read arguments.
const source = "source"

func (r *Repo) newFetchQuarantine(ctx context.Context, format Format, from Source) (_ *fetchQuarantine, err error) {
	q := &fetchQuarantine{quarantine{repo: r}, r.git.fetchEnv(from.URL), from}
	if err := q.make(format, "fetch-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			q.remove()
		}
	}()
	tips, err := q.tips(ctx)
	if err != nil {
		return nil, err
	}
	refs := "# pack-refs with: sorted \n"
	for _, id := range tips {
		refs += id + " refs/known/" + id + "\n"
	}
	return q, writeFile(filepath.Join(q.dir, "packed-refs"), refs)
}

// tips are the objects that refs name, here and in some repositories of the same
// identifier: what they reach is here.
func (q *fetchQuarantine) tips(ctx context.Context) ([]string, error) {
	var from []*Repo
	there, err := q.repo.Exists()
	if err != nil {
		return nil, err
	}
	if there || q.repo.planned == nil {
		from = append(from, q.repo)
	}
	if q.store != nil {
		members, err := q.store.members()
		if err != nil {
			return nil, err
		}
		for _, m := range members {
			if m.dir != q.repo.dir && len(from) <= maxSiblings {
				from = append(from, m)
			}
		}
	}
	var tips []string
	for i, repo := range from {
		refs, err := repo.Refs(ctx)
		if (i > 0 || q.repo.planned != nil) && errors.Is(err, ErrNotFound) {
			continue // it has gone meanwhile
		}
		if err != nil {
			return nil, err
		}
		for _, ref := range refs.List {
			tips = append(tips, ref.ID)
		}
	}
	tips = slices.Compact(slices.Sorted(slices.Values(tips)))
	if len(tips) == 0 {
		return nil, nil
	}
	return from[0].present(ctx, tips)
}

// has reports whether an object is among sorted ones. A server may name a million.
func has(ids []string, id string) bool {
	_, found := slices.BinarySearch(ids, id)
	return found
}

// fetch brings those of the objects that the server has. A missing object is no error.
func (q *fetchQuarantine) fetch(ctx context.Context, ids []string) error {
	rest := ids
	for range maxNotThere {
		err := q.ask(ctx, rest)
		if err == nil || ctx.Err() != nil {
			return err
		}
		absent, refused := readRefusal(err)
		if refused {
			return q.fetchRefs(ctx, ids)
		}
		if absent == "" {
			return err
		}
		left := slices.DeleteFunc(slices.Clone(rest), func(id string) bool { return id == absent })
		if len(left) == len(rest) {
			return err // it complains about what nobody asked for
		}
		if rest = left; len(rest) == 0 {
			return nil
		}
	}
	// It lacks many. Those that its refs name it has.
	refs, err := q.listRefs(ctx)
	if err != nil {
		return err
	}
	var named []string
	for _, ref := range refs {
		if has(rest, ref.ID) {
			named = append(named, ref.ID)
		}
	}
	return q.ask(ctx, slices.Compact(slices.Sorted(slices.Values(named))))
}

// RefusedObjects reports objects of a server that were refused because of faults in objects that
// they refer to (see fsckIgnored). A later fetch from that server gives the same result.
type RefusedObjects struct {
	IDs    []string // some of those that were asked for; others may be refused as well
	Reason string   // the first fault, in git's words
}

func (r *RefusedObjects) Error() string { return r.Reason }

// fetchParts is fetch of objects that may be refused: it brings the others, and finds out
// which are refused by halves, with at most *parts fetches.
func (q *fetchQuarantine) fetchParts(ctx context.Context, ids []string, parts *int) (*RefusedObjects, error) {
	if *parts == 0 {
		return nil, nil
	}
	*parts--
	err := q.fetch(ctx, ids)
	failure := new(Failure)
	if !errors.As(err, &failure) || failure.fault == "" || ctx.Err() != nil {
		return nil, err
	}
	refused := &RefusedObjects{Reason: failure.fault}
	for len(ids) > 1 && *parts > 0 {
		half := len(ids) / 2
		more, err := q.fetchParts(ctx, ids[:half], parts)
		if err == nil {
			err = q.know(ctx, ids[:half])
		}
		if ids = ids[half:]; more == nil && err == nil {
			continue // so it is one of these
		}
		if more != nil {
			refused.IDs = append(refused.IDs, more.IDs...)
		}
		if err == nil {
			more, err = q.fetchParts(ctx, ids, parts)
			if more != nil {
				refused.IDs = append(refused.IDs, more.IDs...)
			}
		}
		return refused, err
	}
	if len(ids) == 1 {
		refused.IDs = append(refused.IDs, ids[0])
	}
	return refused, nil
}

// know adds those of the objects that have come to what is not fetched again.
func (q *fetchQuarantine) know(ctx context.Context, ids []string) error {
	found, err := q.whole(ctx, ids)
	if err != nil {
		return err
	}
	folder := filepath.Join(q.dir, "refs", "known")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, id := range found {
		if err := os.WriteFile(filepath.Join(folder, id), []byte(id+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fetchRefs brings branches, tags and pull requests of a server that does not take the ids of
// objects. First it brings refs that name one of the objects. If something is still missing, it
// brings the others, which may contain it.
func (q *fetchQuarantine) fetchRefs(ctx context.Context, ids []string) error {
	refs, err := q.listRefs(ctx)
	if err != nil {
		return err
	}
	var named, others []string
	for _, ref := range refs {
		if has(ids, ref.ID) {
			named = append(named, ref.Name)
		} else if strings.HasPrefix(ref.Name, "refs/heads/") {
			others = append(others, ref.Name)
		}
	}
	if err := q.ask(ctx, named[:min(len(named), maxFetchRefs)]); err != nil {
		return err
	}
	found, err := q.whole(ctx, ids)
	if err != nil || len(found) == len(ids) {
		return err
	}
	return q.ask(ctx, others[:min(len(others), maxFetchRefs)])
}

// listRefs returns what the server says that its branches, tags and pull requests
// are.
func (q *fetchQuarantine) listRefs(ctx context.Context) (list []Ref, err error) {
	out, err := q.git(ctx, "", "ls-remote", "--quiet", "--refs", "--end-of-options", source)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		id, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if IsID(id) && IsPushable(name) {
			list = append(list, Ref{Name: name, ID: id})
		}
	}
	return list, nil
}

// ask fetches objects or refs, by their names.
func (q *fetchQuarantine) ask(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	_, err := q.git(ctx, strings.Join(names, "\n")+"\n", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
		"--no-recurse-submodules", "--no-show-forced-updates", "--refmap=", "--stdin", "--end-of-options", source)
	return err
}

// whole returns those of the objects that are here with all that they refer to.
func (q *fetchQuarantine) whole(ctx context.Context, ids []string) ([]string, error) {
	out, err := q.git(ctx, strings.Join(ids, "\n")+"\n", "cat-file", "--batch-check=%(objectname)")
	if err != nil {
		return nil, err
	}
	var there []string
	for line := range strings.Lines(string(out)) {
		if id := strings.TrimSuffix(line, "\n"); IsID(id) && has(ids, id) {
			there = append(there, id)
		}
	}
	if len(there) == 0 {
		return nil, nil
	}
	connected := func(ids []string) (bool, error) {
		_, err := q.git(ctx, strings.Join(ids, "\n")+"\n", "rev-list", "--objects", "--stdin", "--not", "--all", "--quiet")
		if err != nil && ctx.Err() == nil && (exitCode(err) == 1 || exitCode(err) == 128) {
			return false, nil
		}
		return err == nil, err
	}
	all, err := connected(there)
	if all || err != nil {
		return there, err
	}
	const maximum = 32 // one by one
	var list []string
	for _, id := range there[:min(len(there), maximum)] {
		whole, err := connected([]string{id})
		if err != nil {
			return nil, err
		}
		if whole {
			list = append(list, id)
		}
	}
	return list, nil
}

// migrate moves the packs to where they belong.
func (q *fetchQuarantine) migrate(ctx context.Context) error {
	completed := q.completed()
	if q.from.Completed != nil && completed > 0 {
		if err := q.from.Completed(completed); err != nil {
			return err
		}
	}
	unlock, err := q.repo.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := q.repo.makePlanned(ctx); err != nil {
		return err
	}
	if _, err := movePacks(filepath.Join(q.dir, "objects", "pack"), filepath.Join(q.repo.dir, "objects", "pack")); err != nil {
		return err
	}
	if q.store != nil {
		q.repo.root.redundant.add(q.store.dir, completed)
	}
	return q.repo.Share(ctx)
}

// git runs git in the quarantine and returns its output.
func (q *fetchQuarantine) git(ctx context.Context, in string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p, err := q.repo.git.start(ctx, q.dir, q.env, append([]string{"--git-dir=."}, args...)...)
	if err != nil {
		return nil, err
	}
	// It starts no other process before its input, which names what is fetched.
	limitMemory(p.cmd.Process.Pid, 4*q.repo.git.options.AllocBytes)
	p.lower(huntNice)
	watched := q.watchWork(ctx, p.cmd.Process.Pid, cancel)
	defer watched()
	return p.exchange([]byte(in), cancel)
}

// huntNice is the priority of fetches from other servers: pushes and clones go first.
const huntNice = 10

// workEvery is how often the work of a fetch is looked at.
const workEvery = 250 * time.Millisecond

// watchWork ends git when it, and what it has started, take more processor time than what
// has come allows: as much as a push of that size. It also ends git when that appends too much
// to a thin pack. It returns how to end the watch, which waits for it.
func (q *fetchQuarantine) watchWork(ctx context.Context, pid int, end context.CancelCauseFunc) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(workEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			options := &q.repo.git.options
			if took := familyCPU(pid); took > options.CPU && took > options.CPU+time.Duration(q.size()>>19)*time.Second {
				end(&Refused{Reason: "the fetch takes more work than its size allows"})
				return
			}
			if err := q.checkCompleted(); err != nil {
				end(err)
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// size is the bytes of the packs in the quarantine, also of one that is still coming.
func (q *fetchQuarantine) size() (sum int64) {
	entries, _ := os.ReadDir(filepath.Join(q.dir, "objects", "pack"))
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// readRefusal says what a server does not give: one object, or any by its id.
func readRefusal(err error) (absent string, refused bool) {
	failure := new(Failure)
	if !errors.As(err, &failure) {
		return "", false
	}
	const notOurs, unadvertised = "upload-pack: not our ref ", "does not allow request for unadvertised object"
	if strings.Contains(failure.Stderr, unadvertised) {
		return "", true
	}
	if _, after, ok := strings.Cut(failure.Stderr, notOurs); ok {
		id, _, _ := strings.Cut(after, " ")
		if IsID(id) {
			return id, false
		}
	}
	return "", false
}

// fetchConfig is git's additional configuration for fetches.
func fetchConfig(url string) [][2]string {
	list := [][2]string{
		{"remote." + source + ".url", url},
		{"remote." + source + ".tagOpt", "--no-tags"},
		{"protocol.http.allow", "always"},
		{"protocol.version", "2"},
		{"http.followRedirects", "false"},
		{"http.proxy", ""},
		{"http.extraHeader", ""},
		{"credential.helper", ""},
		{"transfer.bundleURI", "false"},
		{"transfer.credentialsInUrl", "die"},
		{"fetch.uriProtocols", ""},
		{"fetch.recurseSubmodules", "false"},
		{"fetch.writeCommitGraph", "false"},
		{"pack.threads", "1"},
	}
	return append(list, fsckConfig()...)
}

// fetchEnv is the environment of a git that fetches, beyond what every git has.
func (g *Git) fetchEnv(url string) []string { return configEnv(len(g.settings), fetchConfig(url)) }
