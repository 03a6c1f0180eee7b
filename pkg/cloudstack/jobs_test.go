// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
)

// fakeJobs is a server with jobs that end at given times.
type fakeJobs struct {
	mu       sync.Mutex
	ends     map[string]time.Time
	failed   map[string]bool
	unlisted map[string]bool // not shown by the list although they run
	listErr  error
	queryErr map[string]error
	polls    []time.Time
	lists    int
	queries  map[string]int
}

func newFakeJobs() *fakeJobs {
	return &fakeJobs{
		ends: map[string]time.Time{}, failed: map[string]bool{}, unlisted: map[string]bool{},
		queryErr: map[string]error{}, queries: map[string]int{},
	}
}

func (f *fakeJobs) add(id string, lasts time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ends[id] = time.Now().Add(lasts)
}

func (f *fakeJobs) queryJob(_ context.Context, id string) (*Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.polls = append(f.polls, time.Now())
	f.queries[id]++
	if err := f.queryErr[id]; err != nil {
		return nil, err
	}

	end, ok := f.ends[id]
	if !ok {
		return nil, &Error{Kind: KindNotFound, Command: commandQueryJob, HTTPCode: 431, Text: "entity does not exist"}
	}

	j := jobJSON{ID: id}
	if !time.Now().Before(end) {
		j.Status, j.Result = 1, []byte(`{"success":true}`)
		if f.failed[id] {
			j.Status, j.ResultCode, j.Result = 2, 530, []byte(`{"errorcode":530,"errortext":"Failed to assign load balancer rule"}`)
		}
	}

	return j.state(id, nil), nil
}

func (f *fakeJobs) runningJobs(context.Context) (sets.Set[string], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.polls = append(f.polls, time.Now())
	f.lists++
	if f.listErr != nil {
		return nil, f.listErr
	}
	running := sets.Set[string]{}
	for id, end := range f.ends {
		if time.Now().Before(end) && !f.unlisted[id] {
			running.Insert(id)
		}
	}
	return running, nil
}

// total is the number of calls that the waiter has made.
func (f *fakeJobs) total() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.polls)
}

// run waits for the jobs, all at once.
func (f *fakeJobs) run(t *testing.T, w *JobWaiter, ids ...string) map[string]error {
	t.Helper()
	out, results := map[string]error{}, make(chan func(), len(ids))
	for _, id := range ids {
		go func() {
			_, err := w.Wait(context.Background(), "createTags", id)
			results <- func() { out[id] = err }
		}()
		synctest.Wait() // so that the waits begin in the order of ids
	}
	for range ids {
		(<-results)()
	}
	return out
}

// follow waits for a job with options.
func follow(w *JobWaiter, a Await) (*Job, error) {
	followed := w.Follow(a)
	<-followed.Done()
	return followed.Result()
}

// succeed waits for jobs that must all succeed.
func (f *fakeJobs) succeed(t *testing.T, w *JobWaiter, ids ...string) {
	t.Helper()
	for id, err := range f.run(t, w, ids...) {
		require.NoError(t, err, id)
	}
}

// wait returns a function that waits for jobs in the background, and a function that ends these waits.
func (f *fakeJobs) wait(t *testing.T, w *JobWaiter) (wait func(ids ...string), stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	return func(ids ...string) {
			for _, id := range ids {
				f.add(id, time.Hour)
				wg.Go(func() { _, _ = w.Wait(ctx, "createTags", id) })
			}
			synctest.Wait()
		}, func() {
			cancel()
			wg.Wait()
		}
}

// waiterTest runs a test in a bubble, with a waiter of a server with jobs.
func waiterTest(t *testing.T, timeout time.Duration, test func(t *testing.T, f *fakeJobs, w *JobWaiter)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeJobs()
		test(t, f, newJobWaiter(f.queryJob, f.runningJobs, clock.RealClock{}, timeout))
	})
}

func TestTenJobsShareTheirPolls(t *testing.T) {
	waiterTest(t, 10*time.Minute, func(t *testing.T, f *fakeJobs, w *JobWaiter) {
		var ids []string
		for i := range 10 {
			id := "job-" + strconv.Itoa(i)
			ids = append(ids, id)
			f.add(id, time.Duration(300+250*i)*time.Millisecond) // the last ends at 2.55 s
		}

		start := time.Now()
		f.succeed(t, w, ids...)
		f.mu.Lock()
		defer f.mu.Unlock()
		took := f.polls[len(f.polls)-1].Sub(start)
		results := 0
		for id, n := range f.queries {
			if id != "job-9" { // the last job, once it runs alone, is polled by its own query
				require.Equal(t, 1, n, "one result read for %s", id)
			}
			results += n
		}

		polls := f.lists + results - 10 // calls that read no result
		require.LessOrEqual(t, polls, int(took/minPoll)+1, "at most one poll per 200 ms; took %s", took)
		require.LessOrEqual(t, f.lists, 10)
		require.Less(t, took, 4*time.Second, "2.55 s and one interval")
	})
}

func TestPollsAreNeverCloserThanTheMinimum(t *testing.T) {
	waiterTest(t, 10*time.Minute, func(t *testing.T, f *fakeJobs, w *JobWaiter) {
		f.listErr = &Error{Kind: KindTransient, Text: "down"}
		wait, stop := f.wait(t, w)
		wait("a", "b")
		for i := range 20 { // a new job every 100 ms must not make polls more frequent
			wait("new-" + strconv.Itoa(i))
			time.Sleep(100 * time.Millisecond)
		}
		stop()
		f.mu.Lock()
		defer f.mu.Unlock()
		for i := 1; i < len(f.polls); i++ {
			require.GreaterOrEqual(t, f.polls[i].Sub(f.polls[i-1]), minPoll)
		}
		require.GreaterOrEqual(t, len(f.polls), 8, "new jobs keep the polls frequent")
	})
}

func TestIntervalGrowsAndIsResetByANewJob(t *testing.T) {
	waiterTest(t, time.Hour, func(t *testing.T, f *fakeJobs, w *JobWaiter) {
		wait, stop := f.wait(t, w)
		wait("a")
		time.Sleep(30 * time.Second)
		first := f.total()
		require.Less(t, first, 30, "the interval grows to 2 s")
		require.Greater(t, first, 15)
		wait("b")
		time.Sleep(time.Second)
		require.GreaterOrEqual(t, f.total()-first, 3, "a new job is asked for soon")
		stop()
	})
}

func TestListRefused(t *testing.T) {
	waiterTest(t, 10*time.Minute, func(t *testing.T, f *fakeJobs, w *JobWaiter) {
		f.listErr = &Error{Kind: KindNotPermitted, HTTPCode: 432, Text: "no"}
		ids := []string{"a", "b", "c"}
		for i, id := range ids {
			f.add(id, time.Duration(i)*300*time.Millisecond)
		}
		f.succeed(t, w, ids...)
		require.Equal(t, 1, f.lists, "what the role forbids is asked once")
	})
}

// If jobs must be queried one by one, each job that has ended costs one query and no wait, and a job that never ends
// does not delay new jobs.
func TestJobsThatCannotBeListed(t *testing.T) {
	waiterTest(t, time.Hour, func(t *testing.T, f *fakeJobs, w *JobWaiter) {
		f.listErr = &Error{Kind: KindNotPermitted, HTTPCode: 432, Text: "no"}
		wait, stop := f.wait(t, w)
		wait("stuck-1", "stuck-2", "stuck-3")
		time.Sleep(10 * time.Minute)
		var ids []string
		for i := range 24 {
			ids = append(ids, "job-"+strconv.Itoa(i))
			f.add(ids[i], time.Second+time.Duration(i)*20*time.Millisecond)
		}
		begun := time.Now()
		f.succeed(t, w, ids...)
		require.Less(t, time.Since(begun), 3*time.Second)
		require.LessOrEqual(t, f.lists, 2, "what the role forbids is asked for again after some minutes")
		stop()
	})
}

func TestWhatIsKnownOfTheRole(t *testing.T) {
	waiterTest(t, time.Hour, func(t *testing.T, f *fakeJobs, w *JobWaiter) {
		r, refusal := w.role, &Error{Kind: KindNotPermitted}
		refused, news := r.Learn("p", "createTags", refusal)
		require.True(t, refused && news)
		require.True(t, r.Denied("p", "createTags", time.Time{}))
		require.False(t, r.Denied("q", "createTags", time.Time{}), "of another project it says nothing")
		_, news = r.Learn("p", "createTags", refusal)
		require.False(t, news)
		_, news = r.Learn("p", "createTags", &Error{Kind: KindTransient})
		require.False(t, news)
		require.True(t, r.Denied("p", "createTags", time.Now()))
		time.Sleep(time.Second)
		require.False(t, r.Denied("p", "createTags", time.Now()), "a drift round that began since asks again")

		time.Sleep(RefusalAge)
		require.False(t, r.Denied("p", "createTags", time.Time{}), "it is long ago")

		r.Note("p", "createTags", true)
		time.Sleep(time.Hour)
		has, known := r.Has("p", "createTags", time.Now())
		require.True(t, has && known, "what is there stays")
		r.Reset()
		_, known = r.Has("p", "createTags", time.Time{})
		require.False(t, known)
	})
}

func TestJobThatTheListDoesNotShow(t *testing.T) {
	waiterTest(t, 10*time.Minute, func(t *testing.T, f *fakeJobs, w *JobWaiter) {
		f.add("a", 2*time.Second)
		f.add("b", 3*time.Second)
		f.add("hidden", 1500*time.Millisecond)
		f.unlisted["hidden"] = true
		f.succeed(t, w, "a", "b", "hidden")
		require.Less(t, f.queries["hidden"], 8)
		require.LessOrEqual(t, f.queries["a"], 3)
	})
}

func TestUnknownAndForbiddenJobs(t *testing.T) {
	waiterTest(t, 10*time.Minute, func(t *testing.T, f *fakeJobs, w *JobWaiter) {
		f.add("fine", time.Second)
		f.queryErr["foreign"] = &Error{Kind: KindNotPermitted, HTTPCode: 531, Text: "not authorized"}
		f.queryErr["keys"] = &Error{Kind: KindAuth, HTTPCode: 401, Text: "unable to verify"}
		r := f.run(t, w, "fine", "unknown", "foreign", "keys")
		require.NoError(t, r["fine"])
		require.True(t, IsNotFound(r["unknown"]), "%v", r["unknown"])
		require.True(t, IsKind(r["foreign"], KindNotPermitted))
		require.True(t, IsKind(r["keys"], KindAuth))
		e := asError(t, r["foreign"])
		require.Equal(t, "foreign", e.JobID)
		require.True(t, e.MayHaveHappened)
	})
}

func TestPassingPollErrorsFailNobody(t *testing.T) {
	waiterTest(t, 10*time.Minute, func(t *testing.T, f *fakeJobs, w *JobWaiter) {
		f.add("a", time.Second)
		f.add("b", time.Second)
		f.listErr = &Error{Kind: KindTransient, Text: "connection refused"}
		f.queryErr["a"] = &Error{Kind: KindThrottled, Text: "slow down"}
		time.AfterFunc(2*time.Second, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.listErr = nil
			delete(f.queryErr, "a")
		})
		f.succeed(t, w, "a", "b")
		require.Greater(t, f.total(), 6)
	})
}

func TestJobTimeout(t *testing.T) {
	waiterTest(t, 3*time.Second, func(t *testing.T, f *fakeJobs, w *JobWaiter) {
		f.add("a", time.Hour)
		f.queryErr["a"] = &Error{Kind: KindTransient, Command: commandQueryJob, Text: "connection refused"}
		err := f.run(t, w, "a")["a"]
		require.ErrorIs(t, err, ErrJobTimeout)
		e := asError(t, err)
		require.Equal(t, KindTransient, e.Kind)
		require.Equal(t, "a", e.JobID)
		require.True(t, e.MayHaveHappened)
		require.ErrorContains(t, err, "within 3s")
		require.ErrorContains(t, err, "connection refused")
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	waiterTest(t, time.Hour, func(t *testing.T, f *fakeJobs, w *JobWaiter) {
		f.add("a", time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { _, err := w.Wait(ctx, "x", "a"); done <- err }()
		synctest.Wait()
		cancel()
		err := <-done
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, asError(t, err).MayHaveHappened)
		polls := f.total()
		time.Sleep(time.Hour)
		require.Equal(t, polls, f.total(), "nobody waits, nobody polls")
	})
}

func TestTwoCallersOfOneJob(t *testing.T) {
	waiterTest(t, time.Hour, func(t *testing.T, f *fakeJobs, w *JobWaiter) {
		f.add("a", 500*time.Millisecond)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				job, err := w.Wait(t.Context(), "createTags", "a")
				if assert.NoError(t, err) {
					assert.Equal(t, JobSucceeded, job.Status)
				}
			})
		}
		wg.Wait()
		require.LessOrEqual(t, f.queries["a"], 3)
		require.Zero(t, f.lists)
	})
}

// Jobs whose success the caller sees elsewhere need no query: one list shows that they have ended.
func TestUnreadJobs(t *testing.T) {
	waiterTest(t, time.Hour, func(t *testing.T, f *fakeJobs, w *JobWaiter) {
		f.add("long", 700*time.Millisecond)
		f.add("read", 100*time.Millisecond)
		for i := range 8 {
			f.add("unread-"+strconv.Itoa(i), 100*time.Millisecond)
		}

		var wg sync.WaitGroup
		for id := range f.ends {
			unread := id != "long" && id != "read"
			wg.Go(func() {
				job, err := follow(w, Await{Command: "createTags", JobID: id, Unread: unread})
				require.NoError(t, err)
				require.Equal(t, unread, job == nil, id)
			})
		}

		wg.Wait()
		require.Equal(t, 1, f.lists)
		require.Equal(t, 1, f.queries["read"])
		require.Len(t, f.queries, 2, "no result is read but those that are asked for: %v", f.queries)
	})
}

// A single job is queried even if no caller needs its result, because the query shows that it has ended.
func TestUnreadJobThatFailsAlone(t *testing.T) {
	waiterTest(t, time.Hour, func(t *testing.T, f *fakeJobs, w *JobWaiter) {
		f.add("a", time.Second)
		f.failed["a"] = true
		_, err := follow(w, Await{Command: "assignToLoadBalancerRule", JobID: "a", Unread: true})
		require.ErrorContains(t, err, "Failed to assign")
		require.Zero(t, f.lists)
	})
}

// The caller says when a job has probably ended, but polls are never closer than minPoll.
func TestFirstPollComesWhenTheJobIsDue(t *testing.T) {
	waiterTest(t, time.Hour, func(t *testing.T, f *fakeJobs, w *JobWaiter) {
		wait := func(id string, lasts, due time.Duration) time.Duration {
			f.add(id, lasts)
			begun := time.Now()
			_, err := follow(w, Await{Command: "createTags", JobID: id, Due: &due})
			require.NoError(t, err)
			return time.Since(begun)
		}
		require.Equal(t, 50*time.Millisecond, wait("short", 40*time.Millisecond, 50*time.Millisecond))
		require.Equal(t, minPoll, wait("at once again", 40*time.Millisecond, 50*time.Millisecond))
		require.Equal(t, 300*time.Millisecond, wait("late", 40*time.Millisecond, 300*time.Millisecond))
		require.Equal(t, minPoll, wait("long past", 0, -time.Hour))
	})
}

func TestResultOfAJobThatHasEnded(t *testing.T) {
	waiterTest(t, time.Hour, func(t *testing.T, f *fakeJobs, w *JobWaiter) {
		f.add("done", 0)
		f.add("failed", 0)
		f.failed["failed"] = true
		f.add("runs", time.Second)
		begun := time.Now()
		job, err := w.Result(t.Context(), "createTags", "done")
		require.NoError(t, err)
		require.Equal(t, JobSucceeded, job.Status)
		_, err = w.Result(t.Context(), "assignToLoadBalancerRule", "failed")
		require.True(t, IsKind(err, KindJobFailed), "%v", err)
		require.Zero(t, time.Since(begun))
		_, err = w.Result(t.Context(), "createTags", "runs")
		require.NoError(t, err, "it is waited for")
		require.GreaterOrEqual(t, time.Since(begun), time.Second)
	})
}

func TestJobErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		json     jobJSON
		kind     Kind
		code     int
		text     string
		happened bool
	}{
		"failed": {jobJSON{
			Status:     2,
			ResultCode: 431,
			Result:     []byte(`{"errorcode":431,"errortext":"Invalid protocol"}`),
		}, KindJobFailed, 431, "Invalid protocol", false},
		"failed without text": {jobJSON{Status: 2, ResultCode: 530, Result: []byte(`{"errorcode":530}`)},
			KindJobFailed, 530, "gave no reason", false},
		"failed with bare text": {jobJSON{Status: 2, ResultCode: 530, Result: []byte(`"some text"`)}, KindJobFailed,
			530, "some text", false},
		"code only in result": {jobJSON{Status: 2, Result: []byte(`{"errorcode":533,"errortext":"x"}`)},
			KindJobFailed, 533, "x", false},
		"server restarted": {jobJSON{Status: 2, ResultCode: 530}, KindTransient, 530, "restart", true},
		"blocked too long": {jobJSON{Status: 2, Result: []byte(`null`)}, KindTransient, 0, "aborted the job",
			true},
		"cancelled":       {jobJSON{Status: 3}, KindJobFailed, 0, "cancelled", true},
		"from the future": {jobJSON{Status: 9}, KindUnknown, 0, "unknown status 9", true},
	} {
		s := tc.json.state("j", nil)
		require.NotEqual(t, JobPending, s.Status)
		e := asError(t, s.err("createTags"))
		want := Error{
			Kind:            tc.kind,
			HTTPCode:        tc.code,
			JobID:           "j",
			Command:         "createTags",
			MayHaveHappened: tc.happened,
			Text:            e.Text,
			Err:             e.Err,
		}
		require.Equal(t, want, *e, name)
		require.Contains(t, e.Error(), tc.text)
	}

	s := (&jobJSON{Status: 1, Result: []byte(`{"success":true}`)}).state("j", nil)
	require.NoError(t, s.err("x"))
	s = (&jobJSON{Status: 2, Result: []byte(`{"errortext":"apikey=abcdef"}`)}).state("j", nil)
	require.Equal(t, "apikey=REDACTED", s.ErrorText)
}

// A job that ends between the server's count and its list does not cause a request for a second page; a full page does.
func TestRunningJobsAsksForAnotherPageOnlyAfterAFullOne(t *testing.T) {
	t.Parallel()
	page := func(from, to, count int) reply {
		var jobs []string
		for i := from; i < to; i++ {
			jobs = append(jobs, fmt.Sprintf(`{"jobid":"j%d","jobstatus":0}`, i))
		}
		return jsonReply(200,
			fmt.Sprintf(`{"listasyncjobsresponse":{"count":%d,"asyncjobs":[%s]}}`, count, strings.Join(jobs, ",")))
	}

	for name, c := range map[string]struct {
		pages       []reply
		jobs, calls int
	}{
		"one ended meanwhile": {[]reply{page(0, 2, 3)}, 2, 1},
		"all ended meanwhile": {[]reply{jsonReply(200, `{"listasyncjobsresponse":{"count":2}}`)}, 0, 1},
		"none":                {[]reply{jsonReply(200, `{"listasyncjobsresponse":{}}`)}, 0, 1},
		"exactly a page":      {[]reply{page(0, 500, 500)}, 500, 1},
		"two pages":           {[]reply{page(0, 500, 700), page(0, 500, 700), page(499, 700, 700)}, 700, 3},
	} {
		f := newFakeAPI(func(n int, _ url.Values) reply { return c.pages[n-1] })
		running, err := f.client(t).runningJobs(t.Context())
		require.NoError(t, err, name)
		require.Len(t, running, c.jobs, name)
		require.Len(t, f.recorded(), c.calls, name)
	}
}
