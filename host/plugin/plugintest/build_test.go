package plugintest

import (
	"path"
	"testing"
)

// TestSources: a package is made of its own code, of files that it embeds, and of the packages that it imports.
// Tests and all other packages are left out.
func TestSources(t *testing.T) {
	for folder, wanted := range map[string]map[string]bool{
		"host/plugin": {
			"host": true, "host/plugin": true, "host/plugin/guest": true, "host/plugin/meter": true, "internal/wave": true, "sdk/abi": true,
			"host/web": false, "host/daemon": false, "sdk/strategy/layers": false,
		},
		"plugins/mirror": {
			"plugins/mirror": true, "sdk/strategy/layers": true, "plugins/mirror/manifest.json": true, "plugins/mirror/main.go": true, "sdk/go.mod": true,
			"host": false, "sdk/policy": false, "plugins/mirror/cover_test.go": false,
		},
		"cmd/talon": {
			"host/web/templates/style.css": true, "sdk/c/talon.h": true, "plugins/open": false, "internal/testkit": false,
		},
	} {
		files, err := sources(folder)
		if err != nil {
			t.Fatal(err)
		}
		found := make(map[string]bool)
		for _, file := range files {
			found[file], found[path.Dir(file)] = true, true
		}
		for name, want := range wanted {
			if found[name] != want {
				t.Errorf("sources of %s: %s is among them: %t", folder, name, !want)
			}
		}
	}
	if key, err := testerKey(); err != nil || len(key) != 64 {
		t.Errorf("%q, %v", key, err)
	}
}
