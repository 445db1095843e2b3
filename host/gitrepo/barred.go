package gitrepo

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// checkBarred refuses packs that git has indexed in a quarantine, if one has an object that the
// operator has barred.
func (g *Git) checkBarred(dir string, format Format) error {
	if g.options.Barred == nil {
		return nil
	}
	barred := g.options.Barred()
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
			return &Refused{Reason: "the object " + id + " was taken down by the operator"}
		}
	}
	return nil
}

// findBarred returns the first of ids that a pack has, empty for none.
func findBarred(pack string, idLength int, ids []string) (string, error) {
	p, err := openIndexed(pack, idLength/2)
	if err != nil {
		return "", err
	}
	defer p.close()
	for _, id := range ids {
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
