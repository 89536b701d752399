// Package suggest is the subcommand that answers which limit to set. It measures recorded
// traffic, and suggests limits that leave ordinary clients alone.
//
//	sash suggest [flags] [FILE...]
//	sash suggest access.log access.log.1.gz
//	sash suggest -percentile 99 -headroom 2 -svg limits.svg access.log
//	zcat access.log.*.gz | grep '"POST /login' | sash suggest -window 1m -window 1h
//	sash suggest -by path -by status access.log
//
// It reads what sash replay reads.
//
// # The busiest window
//
// A window ends at an event, and holds the events of the same client that are less than the
// window's length older. So it slides, as the window of a SlidingLog does. The busiest window of a client
// is the one with the most events, or with -cost the most units. It is exact. All events count,
// whether a limit would have admitted them or not.
//
// A log denies a client at least once if and only if the busiest window of that client holds
// more than the limit's Count: before its first denial, all that is in the window was
// admitted. That holds for several limits in one policy, too. The events that a log denies are
// counted by simulation, for each candidate. Both are what sash itself answers.
//
// SlidingParts, which sash.Per chooses above 16, deny no client whose busiest window is within the
// Count either. They may admit one whose busiest window is above the Count, if that holds at most
// twice of it. So the next steps replay both.
//
// A token bucket denies a client if and only if the client needs more than its Burst: the most that it has spent
// and that has not flowed back at the rate. That is exact, too. The report has a bucket for each of some
// rates, which leaves the same share of the clients alone: as an alternative to the limits of the shorter
// windows, it says how large a burst may be where a window says how much it admits. With -cost there are
// none.
//
// A SlidingCounter answers otherwise. It may deny a client whose busiest window is within the
// Count, if that holds more than half of it. And it may admit one whose busiest window is
// above the Count, if that holds less than twice of it.
//
// # The suggestion
//
// For each length of a window, it is the least candidate of at least -headroom times the
// -percentile of all clients. The percentile is the least value that this share of the
// clients does not exceed. Candidates are round numbers: 1, 2, 3, 4, 5, 6, 8, and ten in each power of ten
// from 10 on: 10, 12, 15, 20, 25, 30, 40, 50, 60, 80. A recording that is shorter than three windows suggests nothing for them.
//
// A few clients may be of another kind than the rest: crawlers, attackers, offices behind one
// address. If they set the percentile, the limit suits them. The report warns of that, names
// them, and says which percentile leaves them out. It looks at the busiest windows of clients, and at
// all events of each. Whether to deny them is for the operator to say.
//
// A wide gap parts two kinds of clients. More than one client in ten are above it only if most events
// are theirs.
//
// A valley parts them, too, as it does a botnet whose bots differ: few clients have from x to twice x,
// and many have an octave below, and many one above. Many are three times those few, and ten more. The
// clients above it have a quarter of all events or more, and are up to three clients in four.
//
// An incident may have set the percentile, too: a server that fails, and whose clients try again and again.
// The report warns if two thirds of the busiest windows lie in a few minutes, or in minutes in which most
// answers were 5xx. These are the windows of clients that have half of the percentile or more. The flags
// -from, -to, -without and -where leave an incident out.
//
// # Groups
//
// With -by, events are grouped by fields of the log, such as path, method, status or a column of a CSV. Each group
// has limits of its own, in one pass over the log. Fields joined by commas are one grouping, as by method,path. Several
// -by are several groupings of the same events. path/1 groups by the first segment of a path, and path/2 by two:
// the group /users/* has all paths that begin with /users/, and the group /users that path alone. status/1 groups by
// the class of a status, as 4xx.
//
// A group is what a condition of -where chooses for each field. All that the report says of it is what the report
// says under these conditions, but for what concerns the reading of the log: lines that come too late to be put in
// order may be others, as fewer lines are between them. The report names the conditions, and a command with them
// for the first group. Some values have no condition, such as a path with a comma. Their groups have figures,
// and no commands.
//
// The report shows the groups with most events, as many as -groups says. The others are counted, and not studied.
// They are what is left by the condition that excludes all values shown. A log with more than 10,000 groups of one
// -by is refused.
//
// # The policy
//
// The policy that is printed tells clients apart, and counts, as the recording was measured. It is for the
// requests that -where names by one method, or GET and HEAD, one host and path, and charges the statuses that
// -where names. A pattern is for all spellings of a path, and one of GET for HEAD, too.
// Where the code cannot be known, it has "…".
//
// With -policy the policy is added to a file of package policyfile, as a shadow, and nothing else of the
// file changes; or a new file is made. The file must not have a policy of that -name. What a file cannot
// say is refused. The file is written all at once. Only of a new file on a file system without hard links, a
// process that is killed may leave a part. If the file was edited, or made, or a link to it changed, after the
// command began, it is left alone, and the command fails. So it does if the file would then be invalid: two
// quotas of one name, or too many limits. And so it does if a file of the log could not be read to its end, or has
// no readable line. The functions that the file names are taken to be there.
//
// With -by, a policy for each group that is shown is added, all in one step. Its name is the values of the group,
// after -name if that is given. A group without a suggestion, or for whose values a policy has no pattern, gets
// none, and the report says so.
//
// The bytes of a response are known afterwards. So with -cost size the policy settles them. The event
// that exceeds a limit is then served, and what it costs beyond the limit is carried until it is paid.
// So other events are denied than the report says, but only events of clients that the report says are
// denied. An event without units is admitted only if there is room for one, so it is measured as one
// in the window that ends with it.
//
// The replay that is printed decides as the policy does: -estimate 1 settles, and a token bucket next
// to each limit carries.
//
// # Memory
//
// A client takes 40 bytes for each window, and 144 for all else, 120 of them for token buckets. An event in the
// longest window takes 16, and 32 more in each window in which a candidate denies it; or up to four times that
// while they grow. Events of one instant mostly share them, so a log of whole seconds takes little for a flood.
// A minute with events takes 24, or twice that, and a window 864. Reading takes further memory.
//
// With -by, that is for each group, and each of its clients. A group with fewer than 64 events keeps these alone, at
// 40 bytes each, and some 60 for each client.
//
// With -json the report is one object. Its fields are the fields of output.Summary, and of the types report,
// heading, findings, windowReport, busiest, candidate, suggestion, together, client, warning, step, groupingReport,
// groupReport and others. With -by the groups have the findings, and the object itself has only warnings about the log,
// and next steps.
//
// The exit status is 0; 1 if a file could not be read, or not to its end, or held nothing
// readable or not the fields that flags name, and then no policy is written, or if the picture or the policy could
// not be written; 2 if the command line was wrong; 130 if interrupted, and then no report is written.
package suggest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
	"github.com/seed-30da4c49/sash/internal/command"
	"github.com/seed-30da4c49/sash/internal/progress"
)

const name = "sash suggest"

// Run runs the subcommand with these arguments and streams, and returns its exit status.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parseArgs(args)
	if err != nil {
		return command.Refuse(name, err, o.usage, stdout, stderr)
	}
	r, err := o.suggest(ctx, stdin, stderr)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, name+": interrupted, no report")
		return command.Interrupted
	case err != nil:
		command.Say(stderr, name, err)
		return command.Failed
	}
	if err := o.write(stdout, r); err != nil {
		command.Say(stderr, name, fmt.Errorf("writing the report: %w", err))
		return command.Failed
	}
	status := r.Complain(name, stderr)
	if err := o.writePolicy(r, status == command.OK); err != nil {
		command.Say(stderr, name, err)
		return command.Failed
	}
	return status
}

// suggest reads the files, and returns the report.
func (o *options) suggest(ctx context.Context, stdin io.Reader, stderr io.Writer) (*report, error) {
	size, err := traffic.CheckFiles(o.files, stdin)
	if err != nil {
		return nil, err
	}
	bar := progress.On(stderr, size, "reading")
	defer bar.Clear()
	if len(o.by) > 0 {
		a := newGroupings(o)
		t, err := traffic.Read(ctx, &o.Settings, o.files, stdin, bar, a.take)
		if err != nil {
			return nil, err
		}
		return a.report(t), nil
	}
	s := o.newStudy()
	if s.on, err = traffic.Read(ctx, &o.Settings, o.files, stdin, bar, s.take); err != nil {
		return nil, err
	}
	return s.report(o), nil
}

// newStudy returns a study of what the options say.
func (o *options) newStudy() *study { return newStudy(o.windows, o.estimate(), o.Cost != nil) }

// write writes the report, and the picture if there is to be one.
func (o *options) write(stdout io.Writer, r *report) error {
	var out bytes.Buffer
	if o.json {
		if err := json.NewEncoder(&out).Encode(r); err != nil {
			return err
		}
	} else {
		r.text(&out, o.top)
	}
	// The report is written even if the picture cannot be: a long log took long to read.
	_, err := out.WriteTo(stdout)
	if o.svg == "" || r.Events == 0 {
		return err
	}
	return errors.Join(err, o.writePicture(r))
}

// writePolicy adds the suggested policy, or one for each group, to the file of -policy if there is one. It refuses
// to if the log was not read completely.
func (o *options) writePolicy(r *report, complete bool) error {
	if o.file == nil || r.Events == 0 {
		return nil
	}
	if !complete {
		return fmt.Errorf("-policy: a part of the log is missing, so %s is as it was", o.policy)
	}
	if len(o.by) == 0 {
		text, err := o.fileText(&r.findings)
		if err != nil {
			return fmt.Errorf("-policy: %w, so %s is as it was", err, o.policy)
		}
		return o.file.add([]string{text})
	}
	names, texts, err := r.policiesOfGroups()
	if err != nil {
		return err
	}
	if len(texts) == 0 {
		return fmt.Errorf("-policy: no group has a policy, so %s is as it was", o.policy)
	}
	if err := o.file.lacks(names...); err != nil {
		return err
	}
	return o.file.add(texts)
}

// policiesOfGroups returns the policies for the file of -policy, and their names. The same group of two -by, such as
// /login of path and of path/1, has one policy.
func (r *report) policiesOfGroups() (names, texts []string, err error) {
	for i := range r.By {
		for _, g := range r.By[i].Groups {
			switch {
			case g.policyText == "" || slices.Contains(texts, g.policyText):
			case slices.Contains(names, g.policyName):
				return nil, nil, fmt.Errorf("-policy: two groups are called %s, so their policies would have one name: give each -by a run of its own, and a -name", g.Group)
			default:
				names, texts = append(names, g.policyName), append(texts, g.policyText)
			}
		}
	}
	return names, texts, nil
}

func (o *options) writePicture(r *report) error {
	var picture bytes.Buffer
	if err := r.draw(&picture); err != nil {
		return err
	}
	return os.WriteFile(o.svg, picture.Bytes(), 0o666)
}
