package host

import (
	"slices"
	"strings"
	"testing"

	"talon/sdk/grasp"
)

func TestGrasp(t *testing.T) {
	e := &Event{ID: ID{1}, PubKey: PubKey{2}, CreatedAt: 3, Kind: 30617, Tags: Tags{{"d", "x"}, {}}}
	got := e.Grasp()
	if got.ID != e.ID || got.PubKey != e.PubKey || got.CreatedAt != 3 || got.Kind != 30617 || len(got.Tags) != 2 || !slices.Equal(got.Tags[0], []string{"d", "x"}) {
		t.Errorf("%+v", got)
	}
}

// Each method parses events of its kind, and of no other.
func TestParseGrasp(t *testing.T) {
	author := PubKey{2}
	for _, kind := range []Kind{1, grasp.KindAnnouncement, grasp.KindState, grasp.KindPullRequest, grasp.KindPRUpdate} {
		e := &Event{PubKey: author, Kind: kind, Tags: Tags{
			{"d", "x"}, {"a", Address{KindAnnouncement, author, "x"}.String()}, {"c", strings.Repeat("a", 40)},
			{"E", strings.Repeat("b", 64)},
		}}
		announcement, err := e.Announcement()
		if want := kind == grasp.KindAnnouncement; (err == nil) != want || want && announcement.Identifier != "x" {
			t.Errorf("kind %d as announcement: %v, %v", kind, announcement, err)
		}
		state, err := e.State()
		if want := kind == grasp.KindState; (err == nil) != want || want && state.PubKey != author {
			t.Errorf("kind %d as state: %v, %v", kind, state, err)
		}
		pull, err := e.PullRequest()
		if want := kind == grasp.KindPullRequest || kind == grasp.KindPRUpdate; (err == nil) != want || want && pull.Commit == "" {
			t.Errorf("kind %d as pull request: %v, %v", kind, pull, err)
		}
	}
}

func TestPubKeys(t *testing.T) {
	if got := PubKeys([]grasp.PubKey{{1}, {2}}); !slices.Equal(got, []PubKey{{1}, {2}}) {
		t.Errorf("%v", got)
	}
}
