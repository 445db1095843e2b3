package web

import (
	"slices"
	"testing"

	"talon/host"
	"talon/sdk/grasp"
)

// TestReported: a report by a maintainer hides an issue and a comment on the pages and in the counts of
// the repository. A report of somebody else hides nothing. What is hidden comes back without its report.
func TestReported(t *testing.T) {
	w := newWorld(t)
	w.host(w.publish(announce("owl", "nest", host.Tag{"name", "My nest"}, host.Tag{"maintainers", key("crow").String()})))
	issue := w.publish(event("wren", grasp.KindIssue, now+1, "text", a("owl", "nest"), host.Tag{"subject", "A good issue"}))
	spam := w.publish(event("jay", grasp.KindIssue, now+2, "text", a("owl", "nest"), host.Tag{"subject", "Buy feathers"}))
	said := w.publish(comment("jay", now+3, "Cheap feathers", issue, issue))
	w.publish(comment("wren", now+4, "A good comment", issue, issue))
	report := func(who string, e *host.Event) *host.Event {
		return event(who, host.KindReport, now+5, "", host.Tag{"e", e.ID.String(), "spam"}, host.Tag{"p", e.PubKey.String()})
	}
	list, page := "/"+npub("owl")+"/nest/issues", pathOf(issue, "issues")
	w.publish(report("stranger", spam), report("stranger", said))
	w.get(list).status(t, 200).has(t, "Buy feathers", "A good issue")
	w.get("/"+npub("owl")+"/nest").status(t, 200).has(t, "Buy feathers", "2 open")
	w.get(page).status(t, 200).has(t, "Cheap feathers", "A good comment")

	reports := []*host.Event{report("crow", spam), report("owl", said)}
	w.publish(reports...)
	d := w.get(list).status(t, 200)
	d.has(t, "A good issue")
	d.hasNot(t, "Buy feathers")
	d = w.get("/"+npub("owl")+"/nest").status(t, 200)
	d.has(t, "1 open")
	d.hasNot(t, "Buy feathers")
	w.get(pathOf(spam, "issues")).status(t, 404)
	d = w.get(page).status(t, 200)
	d.has(t, "A good comment")
	d.hasNot(t, "Cheap feathers")

	w.stored = slices.DeleteFunc(w.stored, func(e *host.Event) bool { return slices.Contains(reports, e) })
	w.Handler.Follow(reports, nil)
	w.get(list).status(t, 200).has(t, "Buy feathers")
	w.get(pathOf(spam, "issues")).status(t, 200)
	w.get(page).status(t, 200).has(t, "Cheap feathers")
}
