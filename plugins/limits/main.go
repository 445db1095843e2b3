// Command limits is a policy that refuses events that are too large, too old or
// from the future, and passes on all others.
package main

import (
	_ "embed"
	"strconv"

	"talon/sdk/policy"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, new(limits))

func main() {}

// limits are the settings of the manifest; zero is no limit. The refusals are
// made when they are configured, so that a decision allocates nothing.
type limits struct {
	content, tags, tagBytes, age, future int64

	contentTooLarge, tooManyTags, tagsTooLarge, tooOld, inTheFuture policy.Verdict
}

func (l *limits) Configure(cfg policy.Config) error {
	l.content = cfg.Int("max_content_bytes")
	l.tags = cfg.Int("max_tags")
	l.tagBytes = cfg.Int("max_tag_bytes")
	l.age = cfg.Int("max_age_seconds")
	l.future = cfg.Int("max_future_seconds")

	refuse := func(rule, prefix, before string, n int64, after string) policy.Verdict {
		return policy.Reject(prefix, before+strconv.FormatInt(n, 10)+after).By(rule)
	}
	l.contentTooLarge = refuse("content-too-large", "blocked", "the content is larger than ", l.content, " bytes")
	l.tooManyTags = refuse("too-many-tags", "blocked", "the event has more than ", l.tags, " tags")
	l.tagsTooLarge = refuse("tags-too-large", "blocked", "the tags are larger than ", l.tagBytes, " bytes together")
	l.tooOld = refuse("too-old", "invalid", "created_at is more than ", l.age, " seconds ago")
	l.inTheFuture = refuse("in-the-future", "invalid", "created_at is more than ", l.future, " seconds in the future")
	return nil
}

func (l *limits) Admit(in policy.Input) policy.Verdict {
	event, now := in.Event(), in.Now()
	if l.content > 0 && int64(len(event.Content())) > l.content {
		return l.contentTooLarge
	}
	if l.age > 0 && event.CreatedAt() < now-l.age {
		return l.tooOld
	}
	if l.future > 0 && event.CreatedAt() > now && event.CreatedAt()-now > l.future {
		return l.inTheFuture
	}
	// A tag takes two bytes at least: most events need no walk over their tags.
	most := int64(event.TagBytes())
	if l.tags > 0 && most/2 > l.tags || l.tagBytes > 0 && most > l.tagBytes {
		return l.admitTags(event)
	}
	return policy.Pass()
}

// Idle spares the relay questions while there is no limit.
func (l *limits) Idle() []string {
	if l.content > 0 || l.tags > 0 || l.tagBytes > 0 || l.age > 0 || l.future > 0 {
		return nil
	}
	return []string{"admit"}
}

func (l *limits) admitTags(event policy.Event) policy.Verdict {
	// Counting is cheap, and spares walking what only somebody hostile sends.
	if l.tags > 0 && int64(event.TagCount()) > l.tags {
		return l.tooManyTags
	}
	if l.tagBytes == 0 || int64(event.TagBytes()) <= l.tagBytes {
		return policy.Pass()
	}
	var size int64
	for it := event.Tags(); it.Next(); {
		size += int64(it.Tag().Size())
		if size > l.tagBytes {
			return l.tagsTooLarge
		}
	}
	return policy.Pass()
}
