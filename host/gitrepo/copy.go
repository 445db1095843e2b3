package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Copy brings objects, and all that they refer to, from another repository, of
// whatever identifier. It changes no ref: until one reaches the objects, Collect may
// drop them once they are old. What a Copy that fails leaves, Recover takes away. Both repositories must have the same format.
// REQUIRES: the lock of the repository, not that of the other.
func (r *Repo) Copy(ctx context.Context, from *Repo, ids ...string) error {
	found, err := from.Has(ctx, ids...)
	if err != nil {
		return err
	}
	if slices.Contains(found, false) {
		return errors.New("copy objects: the other repository has not all of them")
	}
	refs, err := r.Refs(ctx)
	if err != nil {
		return err
	}
	// What the refs here reach is not sent again, as far as the other knows it.
	var known []string
	for _, ref := range refs.List {
		known = append(known, ref.ID)
	}
	there, err := from.Has(ctx, known...)
	if err != nil {
		return err
	}
	var want strings.Builder
	for _, id := range ids {
		want.WriteString(id + "\n")
	}
	for i, id := range known {
		if there[i] {
			want.WriteString("^" + id + "\n")
		}
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	source, err := from.serve(ctx, 0, "--git-dir=.", "pack-objects", "--quiet", "--revs", "--thin", "--delta-base-offset", "--stdout")
	if err != nil {
		return fmt.Errorf("copy objects: %w", err)
	}
	target, err := r.serve(ctx, 0, "--git-dir=.", "index-pack", "--stdin", "--fix-thin",
		fmt.Sprintf("--max-input-size=%d", r.git.options.MaxInput))
	if err != nil {
		cancel(err)
		return errors.Join(fmt.Errorf("copy objects: %w", err), source.Wait())
	}
	go func() {
		_, _ = io.WriteString(source.In, want.String())
		_ = source.In.Close()
	}()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, target.Out)
	}()
	_, copying := io.Copy(target.In, source.Out)
	if copying != nil {
		cancel(copying)
	}
	sent := source.Wait()
	if sent != nil {
		cancel(sent) // half a pack
	}
	_ = target.In.Close()
	<-drained
	if err := errors.Join(sent, target.Wait()); err != nil {
		return fmt.Errorf("copy objects: %w", err)
	}
	return nil
}
