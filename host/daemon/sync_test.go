package daemon

import (
	"context"
	"testing"
	"testing/synctest"

	"talon/host"
	"talon/host/plugin"
	"talon/host/plugin/sidecar"
	"talon/sdk/abi/manifest"
)

// TestFollowPolicies checks that refusals are forgotten when other policies decide, and only then.
func TestFollowPolicies(t *testing.T) {
	running := func(name string, mode sidecar.Mode, generation int64, place int, world string) plugin.Status {
		return plugin.Status{Name: name, Mode: mode, Running: &plugin.Running{Generation: generation, Place: place, Worlds: []string{world}}}
	}
	spam := running("spam", sidecar.Enforce, 1, 50, manifest.WorldPolicy)
	grasp := running("grasp", sidecar.Enforce, 1, 60, manifest.WorldPolicy)
	sync := running("sync", sidecar.Enforce, 1, 50, manifest.WorldStrategy)
	synctest.Test(t, func(t *testing.T) {
		changed, lifted := make(chan struct{}), make(chan struct{})
		list, forgotten := []plugin.Status{grasp, spam, sync}, 0
		ctx, stop := context.WithCancel(t.Context())
		go followPolicies(ctx, changed, lifted, func() []plugin.Status { return list }, func() { forgotten++ })
		synctest.Wait()
		for _, step := range []struct {
			name string
			list []plugin.Status
			want int
		}{
			{"nothing", []plugin.Status{grasp, spam, sync}, 0},
			{"the strategy is swapped", []plugin.Status{grasp, spam, running("sync", sidecar.Enforce, 2, 50, manifest.WorldStrategy)}, 0},
			{"a policy is swapped", []plugin.Status{grasp, running("spam", sidecar.Enforce, 2, 50, manifest.WorldPolicy), sync}, 1},
			{"it is asked later", []plugin.Status{grasp, running("spam", sidecar.Enforce, 2, 70, manifest.WorldPolicy), sync}, 2},
			{"it only looks on", []plugin.Status{grasp, running("spam", sidecar.Shadow, 3, 70, manifest.WorldPolicy), sync}, 3},
			{"it looks on with another setting", []plugin.Status{grasp, running("spam", sidecar.Shadow, 4, 70, manifest.WorldPolicy), sync}, 3},
			{"it is off", []plugin.Status{grasp, {Name: "spam", Mode: sidecar.Off}, sync}, 3},
		} {
			list = step.list
			changed <- struct{}{}
			synctest.Wait()
			if forgotten != step.want {
				t.Errorf("%s: forgotten %d times, want %d", step.name, forgotten, step.want)
			}
		}
		lifted <- struct{}{}
		synctest.Wait()
		if forgotten != 4 {
			t.Errorf("the moderation log bars less: forgotten %d times, want 4", forgotten)
		}
		stop()
	})
}

// TestArchives checks that archived repositories are followed while the policies keep archives, and
// while no policy says whether it does.
func TestArchives(t *testing.T) {
	says := func(grasps ...string) host.Description { return host.Description{Grasps: grasps} }
	for name, c := range map[string]struct {
		about []host.Description
		want  bool
	}{
		"an archive":                     {[]host.Description{says("GRASP-01", "GRASP-05")}, true},
		"no archive":                     {[]host.Description{says("GRASP-01")}, false},
		"an archive beside another rule": {[]host.Description{says("GRASP-01"), says("GRASP-05")}, true},
		"nobody says":                    {nil, true},
		"nobody hosts":                   {[]host.Description{{Criteria: "no spam"}}, true},
	} {
		if got := archives(c.about); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
