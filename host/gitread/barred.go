package gitread

import (
	"bufio"
	"io"
	"slices"
	"strings"

	"talon/host/gitrepo"
)

// TakenDown says that an answer would show an object that the operator has taken down.
type TakenDown = gitrepo.TakenDown

// check fails with a *TakenDown if the operator has taken an object down.
func (r *Repository) check(id string) error {
	if text, ok := r.barred[id]; ok {
		return &TakenDown{ID: id, Text: text}
	}
	return nil
}

// present returns the objects in the store that the operator has taken down, sorted.
func (r *Repository) present() (ids []string, err error) {
	if len(r.barred) == 0 {
		return nil, nil
	}
	return r.repo.HasBarred(r.ctx)
}

// checkFiles fails with a *TakenDown if a tree or a commit has one of the objects in it: a folder, or
// a file.
func (r *Repository) checkFiles(tree string, barred []string) error {
	args := []string{"ls-tree", "-r", "-t", "-z", "--full-tree", tree}
	met := ""
	err := r.run(gitrepo.Command{Args: args, CPU: pageCPU, Output: maxCounted}, func(out io.Reader) error {
		in := bufio.NewReader(out)
		for {
			row, err := in.ReadString(0)
			if err != nil {
				return nil
			}
			head, _, _ := strings.Cut(row, "\t")
			if fields := strings.Fields(head); len(fields) == 3 && met == "" && slices.Contains(barred, fields[2]) {
				met = fields[2]
			}
		}
	})
	if err != nil {
		return err
	}
	return r.check(met)
}

// checkAll fails with a *TakenDown if an archive or a list of the whole of a commit would show an
// object that the operator has taken down.
func (r *Repository) checkAll(commit string) error {
	barred, err := r.present()
	if err != nil || len(barred) == 0 {
		return err
	}
	c, err := r.commit(commit)
	if err != nil {
		return err
	}
	for _, id := range []string{commit, c.Tree} {
		if err := r.check(id); err != nil {
			return err
		}
	}
	return r.checkFiles(c.Tree, barred)
}

// checkDiff fails with a *TakenDown if a diff shows an object that the operator has taken down. The
// list of a diff names files and no folders, so checkDiff looks for folders in both trees.
func (r *Repository) checkDiff(d *Diff, from, to string) error {
	barred, err := r.present()
	if err != nil || len(barred) == 0 {
		return err
	}
	shown := []string{from, to}
	for _, f := range d.Files {
		shown = append(shown, f.OldID, f.NewID)
	}
	for _, id := range shown {
		if err := r.check(id); err != nil {
			return err
		}
	}
	if err := r.openObjects(); err != nil {
		return err
	}
	for _, id := range barred {
		kind, _, err := r.objects.Info(id)
		if err != nil {
			return err
		}
		if kind != "tree" {
			continue
		}
		for _, commit := range []string{from, to} {
			if commit == "" {
				continue
			}
			if err := r.checkAll(commit); err != nil {
				return err
			}
		}
		break
	}
	return nil
}

// shown returns a commit as pages may show it: one that the operator has taken down keeps its date
// and its parents.
func (r *Repository) shown(c *Commit) *Commit {
	text, ok := r.barred[c.ID]
	if !ok {
		return c
	}
	return &Commit{
		ID: c.ID, Tree: c.Tree, Parents: c.Parents, Message: "(" + text + ")",
		Author: Signature{When: c.Author.When, Zone: c.Author.Zone}, Committer: Signature{When: c.Committer.When, Zone: c.Committer.Zone},
	}
}

// shownChanges returns the last changes of a folder as pages may show them.
func (r *Repository) shownChanges(found Changes) Changes {
	if len(r.barred) == 0 {
		return found
	}
	shown := make(Changes, len(found))
	for name, change := range found {
		if text, ok := r.barred[change.ID]; ok {
			change.Subject = "(" + text + ")"
		}
		shown[name] = change
	}
	return shown
}

// shownMatches returns the lines that a search has found without those of files that the operator has
// taken down.
func (r *Repository) shownMatches(commit string, matches []Match) ([]Match, error) {
	if len(r.barred) == 0 || len(matches) == 0 {
		return matches, nil
	}
	root, err := r.RootTree(Target{Commit: commit})
	if err != nil {
		return nil, err
	}
	path, down := "", false
	return slices.DeleteFunc(matches, func(m Match) bool {
		if m.Path != path {
			_, err := r.At(root, strings.Split(m.Path, "/"))
			path, down = m.Path, err != nil
		}
		return down
	}), nil
}
