package main

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// binaries are the parts of .goreleaser.yaml, with the fields that it may have.
type binaries struct {
	Version     int
	ProjectName string `yaml:"project_name"`
	Builds      []struct {
		ID, Main, Binary             string
		Env, Flags, LDFlags, Targets []string
		ModTimestamp                 string `yaml:"mod_timestamp"`
	}
	Archives []struct {
		ID              string
		Formats         []string
		FormatOverrides []struct {
			GOOS    string
			Formats []string
		} `yaml:"format_overrides"`
		NameTemplate string   `yaml:"name_template"`
		BuildsInfo   fileInfo `yaml:"builds_info"`
		Files        []struct {
			Src, Dst string
			Info     fileInfo
		}
	}
	Checksum struct {
		NameTemplate string `yaml:"name_template"`
		Algorithm    string
	}
	SBOMs []struct{ Artifacts string }
	Signs []struct {
		Cmd, Artifacts, Signature string
		Args                      []string
	}
	Changelog struct{ Disable bool }
	Release   struct {
		GitHub             struct{ Owner, Name string }
		Prerelease, Footer string
	}
}

type fileInfo struct {
	Mode  int
	MTime string
}

// workflow are the parts of a workflow that must agree with the repository.
type workflow struct {
	On struct {
		Push struct{ Tags []string }
	}
	Jobs map[string]struct {
		Permissions map[string]string
		Steps       []struct{ Uses, Run string }
	}
}

// readYAML reads a file of the repository, and refuses fields that into does not have if strict is set.
func readYAML(t *testing.T, root, name string, into any, strict bool) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(strict)
	require.NoError(t, decoder.Decode(into), name)
}

func repositoryHere(t *testing.T) *repository {
	t.Helper()
	r, err := open(t.Context(), ".")
	require.NoError(t, err)
	return r
}

// The programs and files that .goreleaser.yaml names exist, and the files are alike whenever they
// are made.
func TestBinaries_AreOfTheCommand(t *testing.T) {
	r := repositoryHere(t)
	var b binaries
	readYAML(t, r.root, ".goreleaser.yaml", &b, true)
	require.Equal(t, 2, b.Version)
	require.Len(t, b.Builds, 1)
	build := b.Builds[0]
	require.Equal(t, "./"+commandDir, build.Main)
	name, err := output(t.Context(), r.root, nil, "go", "list", "-f", "{{.Name}}", build.Main)
	require.NoError(t, err)
	require.Equal(t, "main", strings.TrimSpace(name))
	assert.Subset(t, build.Flags, []string{"-trimpath", "-buildvcs=true"})
	assert.Contains(t, build.Env, "CGO_ENABLED=0")
	assert.Equal(t, "{{ .CommitTimestamp }}", build.ModTimestamp)
	require.Len(t, b.Archives, 1)
	assert.Equal(t, "{{ .CommitDate }}", b.Archives[0].BuildsInfo.MTime)
	for _, file := range b.Archives[0].Files {
		assert.FileExists(t, filepath.Join(r.root, file.Src))
		assert.Equal(t, "{{ .CommitDate }}", file.Info.MTime, file.Src)
	}
	assert.Equal(t, rootPath, path.Join("github.com", b.Release.GitHub.Owner, b.Release.GitHub.Name))

	ci, err := os.ReadFile(filepath.Join(r.root, ".ci", "run"))
	require.NoError(t, err)
	built := regexp.MustCompile(`[a-z]+/[a-z0-9]+`).FindAllString(string(ci), -1)
	require.NotEmpty(t, build.Targets)
	for _, target := range build.Targets {
		system := strings.Replace(target, "_", "/", 1)
		assert.True(t, system == "linux/amd64" || slices.Contains(built, system),
			"the step \"Other systems\" does not build %s", system)
	}
}

// The workflow starts at the command's tag alone, which is the last, and gives goreleaser the tag of the root
// module, which release has printed before.
func TestBinaries_AreMadeAtTheCommandsTag(t *testing.T) {
	r := repositoryHere(t)
	var w workflow
	readYAML(t, r.root, ".github/workflows/release.yml", &w, false)
	require.Len(t, w.On.Push.Tags, 1)
	var tags []string // in the order in which they are pushed
	starts := -1
	for _, m := range r.inOrder() {
		tag := m.tag("v0.1.0")
		tags = append(tags, tag)
		if matched, err := path.Match(w.On.Push.Tags[0], tag); assert.NoError(t, err) && matched {
			assert.Equal(t, commandDir, m.dir)
			starts = len(tags) - 1
		}
	}
	require.Equal(t, len(tags)-1, starts, "the last tag starts the workflow: %s", tags)
	script := ""
	for _, job := range w.Jobs {
		assert.Equal(t, map[string]string{"contents": "write", "id-token": "write"}, job.Permissions)
		for _, step := range job.Steps {
			script += step.Run + "\n"
		}
	}
	_, prefix, _ := strings.Cut(script, "GORELEASER_CURRENT_TAG=${GITHUB_REF_NAME#")
	prefix, _, _ = strings.Cut(prefix, "}")
	given := strings.TrimPrefix(tags[starts], prefix)
	at := slices.Index(tags, given)
	assert.True(t, 0 <= at && at < starts, "goreleaser is given the tag %q, and %q are pushed before it", given, tags[:starts])
}

// Permissions of a job take the place of its workflow's, so a job that checks the repository out names
// that, too.
func TestWorkflows_MayReadWhatTheyCheckOut(t *testing.T) {
	r := repositoryHere(t)
	names, err := filepath.Glob(filepath.Join(r.root, ".github", "workflows", "*.yml"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		var w workflow
		readYAML(t, r.root, filepath.Join(".github", "workflows", filepath.Base(name)), &w, false)
		for id, job := range w.Jobs {
			for _, step := range job.Steps {
				if job.Permissions != nil && strings.HasPrefix(step.Uses, "actions/checkout@") {
					assert.NotEmpty(t, job.Permissions["contents"], "%s: job %s", filepath.Base(name), id)
				}
			}
		}
	}
}
