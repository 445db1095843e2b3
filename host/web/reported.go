package web

import (
	"context"
	"slices"

	"talon/host"
	"talon/sdk/grasp"
)

// A report (NIP-56) by a maintainer hides an issue, a pull request, a patch or a comment on the pages
// of the repository, and in its counts. When the maintainer deletes the report, the item is back.

// reportsAtOnce is how many items one filter names.
const reportsAtOnce = 100

// reported returns those of the events that a maintainer has reported.
func (r reader) reported(ctx context.Context, ids []grasp.ID, maintainers []grasp.PubKey) (map[grasp.ID]bool, error) {
	found := make(map[grasp.ID]bool)
	if len(maintainers) == 0 {
		return found, nil
	}
	for part := range slices.Chunk(ids, reportsAtOnce) {
		t := host.TagFilter{Name: 'e'}
		for _, id := range part {
			t.Values = append(t.Values, host.ID(id).String())
		}
		f := host.Filter{Kinds: []host.Kind{host.KindReport}, Authors: host.PubKeys(maintainers), Tags: []host.TagFilter{t}}
		_, err := r.each(ctx, f, 4*reportsAtOnce, func(e *host.Event) bool {
			for _, tag := range e.Tags {
				if len(tag) > 1 && tag[0] == "e" {
					if id, ok := grasp.ParseID(tag[1]); ok {
						found[id] = true
					}
				}
			}
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// withoutReported leaves out the roots that a maintainer has reported.
func (r reader) withoutReported(ctx context.Context, roots []*root, maintainers []grasp.PubKey) ([]*root, error) {
	ids := make([]grasp.ID, len(roots))
	for i, root := range roots {
		ids[i] = root.ID
	}
	reported, err := r.reported(ctx, ids, maintainers)
	if err != nil || len(reported) == 0 {
		return roots, err
	}
	return slices.DeleteFunc(roots, func(root *root) bool { return reported[root.ID] }), nil
}

// withoutReportedRemarks leaves out what was said and a maintainer has reported.
func (r reader) withoutReportedRemarks(ctx context.Context, c *conversation, maintainers []grasp.PubKey) error {
	ids := make([]grasp.ID, len(c.remarks))
	for i, said := range c.remarks {
		ids[i] = said.ID
	}
	reported, err := r.reported(ctx, ids, maintainers)
	if err == nil && len(reported) > 0 {
		c.remarks = slices.DeleteFunc(c.remarks, func(said *remark) bool { return reported[said.ID] })
	}
	return err
}
