package gitrepo

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"talon/internal/recent"
)

// TakenDown says that an answer or a pack has an object that the operator has taken down.
type TakenDown struct {
	ID   string
	Text string // such as "banned by the operator: REASON"
}

func (t *TakenDown) Error() string { return "the object " + t.ID + " was " + t.Text }

// barred returns the objects that the operator has taken down, with a text. Nobody changes the map.
func (g *Git) barred() map[string]string {
	if g.options.Barred == nil {
		return nil
	}
	return g.options.Barred()
}

// Barred returns the objects that the operator has taken down, here or elsewhere. The value is the
// text of a [TakenDown]. Nobody changes the map.
func (r *Repo) Barred() map[string]string { return r.git.barred() }

// HasBarred returns which objects that the operator has taken down are in the store of the
// repository, sorted. Refs need not reach them.
func (r *Repo) HasBarred(ctx context.Context) (ids []string, err error) {
	barred := r.Barred()
	if len(barred) == 0 {
		return nil, nil
	}
	all := slices.Sorted(maps.Keys(barred))
	for part := range slices.Chunk(all, fewObjects) {
		found, err := r.Has(ctx, part...)
		if err != nil {
			return nil, fmt.Errorf("look for barred objects: %w", err)
		}
		for i, id := range part {
			if found[i] {
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
}

// checkBarred refuses packs that git has indexed in a quarantine, if one has an object that the
// operator has barred.
func (g *Git) checkBarred(dir string, format Format) error {
	barred := g.barred()
	if len(barred) == 0 {
		return nil
	}
	packs, err := listPacks([]string{filepath.Join(dir, "objects")})
	if err != nil {
		return fmt.Errorf("look for barred objects: %w", err)
	}
	for _, pack := range packs {
		id, err := findBarred(pack, idLength(format), barred)
		if err != nil {
			return fmt.Errorf("look for barred objects: %w", err)
		}
		if id != "" {
			return &Refused{Reason: (&TakenDown{id, barred[id]}).Error()}
		}
	}
	return nil
}

// findBarred returns one of the barred objects that a pack has, empty for none.
func findBarred(pack string, idLength int, barred map[string]string) (string, error) {
	p, err := openIndexed(pack, idLength/2)
	if err != nil {
		return "", err
	}
	defer p.close()
	for id := range barred {
		name, err := hex.DecodeString(id)
		if err != nil || len(id) != idLength {
			continue // of the other format
		}
		if _, err := p.named(name); err == nil {
			return id, nil
		} else if !errors.Is(err, errNotPack) {
			return "", err
		}
	}
	return "", nil
}

// barredWalks remembers which wants reach a barred object. The answer for an id stays the same for
// ever, since all that an object reaches follows from its id.
type barredWalks struct {
	mu    sync.Mutex // guards known
	known recent.Map[tipsKey, string]
}

// maxBarredWalks is how many answers are remembered; twice as many of those used last.
const maxBarredWalks = 4096

func newBarredWalks() *barredWalks {
	return &barredWalks{known: recent.Map[tipsKey, string]{Size: maxBarredWalks}}
}

func (b *barredWalks) get(key tipsKey) (id string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id, aging, ok := b.known.Get(key)
	if ok && aging {
		b.known.Add(key, id, 1)
	}
	return id, ok
}

func (b *barredWalks) add(key tipsKey, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known.Add(key, id, 1)
}

// walkBarred fails with a *TakenDown if one of the wants reaches an object that the operator has
// taken down. It returns the processor time that git took.
func (w *Wants) walkBarred(t *Task) (took time.Duration, err error) {
	if len(w.barred) == 0 {
		return 0, nil
	}
	walks, key := w.repo.git.barredWalks, keyOf(slices.Concat(w.asked, []string{""}, w.barred))
	met, known := walks.get(key)
	if !known {
		took, err = w.repo.walk(t, strings.Join(w.asked, "\n")+"\n", func(id string) bool {
			if _, ok := slices.BinarySearch(w.barred, id); ok {
				met = id
			}
			return met == ""
		}, "rev-list", "--objects", "--no-object-names", "--use-bitmap-index", "--stdin")
		if err != nil {
			return took, fmt.Errorf("look for barred objects: %w", err)
		}
		walks.add(key, met)
	}
	if met != "" {
		return took, &TakenDown{met, w.repo.Barred()[met]}
	}
	return took, nil
}

// Reaches reports whether a ref of the repository reaches an object. It walks all that the refs reach,
// unless the object is not there at all.
func (r *Repo) Reaches(ctx context.Context, id string) (bool, error) {
	format, err := r.Format(ctx)
	if err != nil || len(id) != idLength(format) {
		return false, err
	}
	if has, err := r.Has(ctx, id); err != nil || !has[0] {
		return false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := r.git.start(ctx, r.dir, nil, "--git-dir=.", "rev-list", "--objects", "--all")
	if err != nil {
		return false, fmt.Errorf("look for an object: %w", err)
	}
	found := false
	lines := bufio.NewScanner(p.Out)
	lines.Buffer(nil, 1<<20) // a line has a path
	for !found && lines.Scan() {
		found = strings.HasPrefix(lines.Text(), id)
	}
	if found {
		cancel()
		_ = p.Wait()
		return true, nil
	}
	if err := errors.Join(lines.Err(), p.Wait()); err != nil {
		return false, fmt.Errorf("look for an object: %w", err)
	}
	return false, nil
}
