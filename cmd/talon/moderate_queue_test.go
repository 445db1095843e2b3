package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"talon/host/moderation/reports"
)

// TestModerateQueue fills the moderation queue with reports, as trusted people and as a stranger, and
// decides, on a running server and on a stopped one.
func TestModerateQueue(t *testing.T) {
	t.Parallel()
	data, plugins := graspData(t), pluginFolder(t, "grasp")
	st := newStory(t, startGrasp(t, data, plugins, "--reporters", pubkey("rita"), "--moderators", pubkey("moderator")))
	owner, mallory, work := st.who("owner"), st.who("mallory"), st.folder()
	commit := work.commit("one")
	st.held(st.announcement(owner, "tool"))
	st.held(st.state(owner, "tool", "refs/heads/main", commit))
	work.push(st.repo(owner, "tool"), commit+":refs/heads/main")
	issue := func(subject string) *nostr.Event {
		return st.stored(st.event(mallory, 1621, nostr.Tag{"a", repoAddress(owner, "tool")}, nostr.Tag{"subject", subject}))
	}
	bad, good := issue("bad"), issue("good")
	report := func(who string, e *nostr.Event) *nostr.Event {
		return signAs(t, who, nostr.Event{Kind: 1984, CreatedAt: nostr.Now(), Content: "look\nhere", Tags: nostr.Tags{{"e", e.ID, "spam"}, {"p", e.PubKey, "spam"}}})
	}
	if a := st.c.publish(st, report("stranger", bad)); !a.ok {
		t.Logf("a report of a stranger: %s", a.reason) // the policy decides
	}
	for _, e := range []*nostr.Event{report("rita", bad), report("moderator", bad), report("rita", good)} {
		st.stored(e)
	}
	queue := func(args ...string) (list []reports.Item) {
		t.Helper()
		out, err := talon(t, nil, append([]string{"moderate", "queue", "--json", "--data", data}, args...)...)
		if err == nil {
			err = json.Unmarshal([]byte(out), &list)
		}
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return list
	}
	list := queue()
	if len(list) != 2 || list[0].Target.String() != "event:"+good.ID && list[1].Target.String() != "event:"+good.ID {
		t.Fatalf("the queue is %+v", list)
	}
	for _, it := range list {
		if want := map[string]int{"event:" + bad.ID: 2, "event:" + good.ID: 1}[it.Target.String()]; it.Reports != want || it.Type != "spam" || it.Reason != "look here" {
			t.Errorf("an item is %+v, want %d reports", it, want)
		}
	}
	if out, err := talon(t, nil, "moderate", "queue", "--data", data); err != nil || !strings.Contains(out, "event:"+bad.ID) {
		t.Errorf("%v: %s", err, out)
	}
	for _, args := range [][]string{{"allow", "event:" + good.ID}, {"hide", "event:" + bad.ID}} {
		if out, err := talon(t, nil, append(append([]string{"moderate"}, args...), "--data", data)...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	st.until("the bad issue goes", func() bool { return !st.served(bad) })
	st.wantServed(good, true)
	if list := queue(); len(list) != 0 {
		t.Errorf("after the decisions the queue is %+v", list)
	}
	page := strings.TrimSuffix(repoPath(owner, "tool"), ".git") + "/issues"
	onPage := func() bool { return strings.Contains(st.ask("GET", page, nil).body, ">good<") }
	if !onPage() {
		t.Errorf("the issue is not on the page: %s", st.ask("GET", page, nil).body)
	}
	own := st.stored(report(string(owner), good)) // a maintainer's report concerns the pages only
	st.until("the issue leaves the page", func() bool { return !onPage() })
	st.wantServed(good, true)
	st.stored(st.event(owner, 5, nostr.Tag{"e", own.ID}))
	st.until("the issue is back", onPage)
	third := issue("third")
	st.stored(report("rita", third))
	st.s.mustStop(t)
	if list := queue("--reporters", pubkey("rita")); len(list) != 1 || list[0].Target.String() != "event:"+third.ID {
		t.Errorf("the queue of a stopped server is %+v", list)
	}
	if list := queue(); len(list) != 0 {
		t.Errorf("without trusted people the queue is %+v", list)
	}
}
