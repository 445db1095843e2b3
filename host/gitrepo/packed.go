package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"talon/host"
)

// updatePacked changes many refs at once by writing the file that has all of them anew:
// git makes a file for each first, which takes seconds under the lock for what anybody may
// push. All change or none, also in a crash: what has a file of its own moves to the one
// file first, as it is. It reports false if git has to do it. REQUIRES: the lock, in a Root,
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
	if err := r.packLoose(refs, updates); err != nil {
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

// packLoose takes the refs that are updated out of files of their own, if some have one.
func (r *Repo) packLoose(refs []fileRef, updates []host.RefUpdate) error {
	var loose []string
	for _, u := range updates {
		path := filepath.Join(r.dir, u.Ref)
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			loose = append(loose, path)
		}
	}
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
	path := filepath.Join(r.dir, "packed-refs")
	// What is in the place of the lock is of a git that was killed.
	err := os.WriteFile(path+".lock", text.Bytes(), 0o644)
	if err == nil {
		err = syncDir(path + ".lock")
	}
	if err == nil {
		err = os.Rename(path+".lock", path)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(path+".lock"))
	}
	return syncDir(r.dir)
}
