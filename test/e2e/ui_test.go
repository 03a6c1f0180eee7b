// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/test/internal/child"
)

// TestUI follows the page of csccm ui while a Service is created, while the leader is killed, while somebody deletes a
// rule in CloudStack, and while the other replica takes over and restores the rule. csccm changes nothing and shows no
// key.
func TestUI(t *testing.T) {
	t.Parallel()
	e := newDirectEnv(t, 2)
	e.register(t, 1, 2, nil)
	first := e.controller(t, "ccm-a")
	e.says(t, first, leads)
	e.initialised(t, 2)
	next := e.controllerAs(t, "ccm-b", "ccm-a", e.url())
	e.says(t, next, standsBy)
	t.Cleanup(func() { // after csccm ui has ended
		lines, err := e.AuditLog()
		assert.NoError(t, errors.Join(err, audit.read(lines)))
	})
	p := e.opens(t, "--cloud-config", e.file(t, "ui-config", string(e.config(t, "ccm-a").Render())))

	e.service(t, "web", 80)
	ip := e.address(t, "web")
	const service = "service/default/web"
	served := func() bool {
		return p.leads(service, model.KindAddress, ip) &&
			!p.lacks("plans") &&
			len(p.now.Plans) == 0 &&
			p.health(service) == model.HealthOK &&
			len(p.rules()) == 1
	}
	p.until(t, "the Service with its address and rule", served)
	was, rule := e.holder(t.Context()), p.rules()[0]
	if !p.tells("leader", "", was+" became leader") {
		t.Errorf("the time line does not say that %s leads: %v", was, p.now.Timeline)
	}

	signal := func(p *child.Process, s syscall.Signal) {
		t.Helper()
		require.NoError(t, p.Signal(s))
	}
	// next is paused until the page has shown what happens while nobody leads, however slow the machine is.
	signal(next, syscall.SIGSTOP)
	first.Stop(0) // SIGKILL
	e.admin(t, "deleteLoadBalancerRule", map[string]string{"id": strings.TrimPrefix(rule, "rule/")})
	p.until(t, "the missing rule", func() bool {
		return len(p.rules()) == 0 && len(p.now.Plans) == 1 && p.health(service) != model.HealthOK
	})
	signal(next, syscall.SIGCONT)
	p.until(t, "the next leader, and the repair", func() bool {
		return served() && p.rules()[0] != rule && !strings.HasPrefix(p.leader(), was)
	})
	if now := e.holder(t.Context()); !strings.HasPrefix(p.leader(), now) || now == was {
		t.Errorf("the time line says %q, and %q holds the lease after %q", p.leader(), now, was)
	}
	if !p.tells("leader", "", was+" became leader") {
		t.Errorf("the time line has forgotten %s: %v", was, p.now.Timeline)
	}
	for _, key := range []string{e.config(t, "ccm-a").APIKey, e.config(t, "ccm-a").SecretKey} {
		if strings.Contains(p.all.String(), key) {
			t.Error("the page has a key of CloudStack")
		}
	}
}

// shown is the state of the page of a running csccm ui, built from its events.
type shown struct {
	events *bufio.Scanner
	all    strings.Builder
	now    model.Snapshot
}

// opens starts csccm ui and visits its page.
func (e *env) opens(t *testing.T, args ...string) *shown {
	t.Helper()
	// The test's own context would end before the ^C below.
	ctx, kill := context.WithTimeout(context.WithoutCancel(t.Context()), commandLimit)
	cmd := e.command(ctx, append([]string{"ui", "--no-open", "--interval", "1s"}, args...)...)
	said := &output{}
	cmd.Stderr = said
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}

	if err != nil {
		kill()
		t.Fatal(err)
	}

	t.Cleanup(func() {
		defer kill()
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("csccm ui ended with %v: %s", err, said)
		}
	})

	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}

	url := strings.TrimSpace(line)
	base, _, _ := strings.Cut(url, "?")
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar}
	get := func(url string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		require.NoError(t, err)
		resp, err := browser.Do(req)
		require.NoError(t, err)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", req.URL.Path, resp.Status)
		}
		return resp
	}

	page := get(url)
	_, _ = io.Copy(io.Discard, page.Body)
	_ = page.Body.Close()
	stream := get(base + "api/events")
	t.Cleanup(func() { _ = stream.Body.Close() })
	p := &shown{events: bufio.NewScanner(stream.Body)}
	p.events.Buffer(nil, 16<<20)
	return p
}

// until applies events until a condition holds.
func (p *shown) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	end := time.Now().Add(limit)
	kind := ""
	for p.events.Scan() {
		p.all.Write(p.events.Bytes())
		name, data, _ := strings.Cut(p.events.Text(), ": ")
		switch {
		case name == "event":
			kind = data
		case name == "data" && kind == "snapshot":
			p.now = model.Snapshot{}
			require.NoError(t, json.Unmarshal([]byte(data), &p.now))
		case name == "data":
			var patch model.Patch
			require.NoError(t, json.Unmarshal([]byte(data), &patch))
			p.now = p.now.Apply(patch)
		}
		if name == "data" && holds() {
			return
		}
		if time.Now().After(end) {
			break
		}
	}

	text, _ := json.MarshalIndent(p.now, "", " ")
	t.Fatalf("the page never showed %s: %v\n%s", what, p.events.Err(), text)
}

func (p *shown) health(id string) model.Health {
	for i := range p.now.Objects {
		if p.now.Objects[i].ID == id {
			return p.now.Objects[i].Health
		}
	}
	return ""
}

// tells reports whether the time line has an entry of this kind, for an object ("" for none), that contains this text.
func (p *shown) tells(kind, object, text string) bool {
	return slices.ContainsFunc(p.now.Timeline, func(e model.Entry) bool {
		return e.Kind == kind && e.Object == object && strings.Contains(e.Message, text)
	})
}

// lacks reports whether the page says that a part is missing.
func (p *shown) lacks(part string) bool {
	return slices.ContainsFunc(p.now.Missing, func(m model.Missing) bool { return m.Part == part })
}

// leader returns the newest entry of the time line about the leader.
func (p *shown) leader() string {
	for _, e := range p.now.Timeline {
		if e.Kind == "leader" {
			return e.Message
		}
	}
	return ""
}

// leads reports whether an object has a link to an object of this kind and name.
func (p *shown) leads(from string, kind model.Kind, name string) bool {
	to := map[string]bool{}
	for i := range p.now.Objects {
		if o := &p.now.Objects[i]; o.Kind == kind && o.Name == name {
			to[o.ID] = true
		}
	}
	for _, l := range p.now.Links {
		if l.From == from && to[l.To] {
			return true
		}
	}
	return false
}

func (p *shown) rules() (ids []string) {
	for i := range p.now.Objects {
		if o := &p.now.Objects[i]; o.Kind == model.KindRule && o.Health != model.HealthPlanned {
			ids = append(ids, p.now.Objects[i].ID)
		}
	}
	return ids
}
