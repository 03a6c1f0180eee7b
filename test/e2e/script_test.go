// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudprovider "k8s.io/cloud-provider"

	world "github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// TestScripts runs the scripts in testdata/script: what csccm says and does on a real API server and a simulated
// CloudStack. A script begins with its scene, the commands cluster and cloudstack. docs/contributing/testing.md has all
// commands.
func TestScripts(t *testing.T) {
	t.Parallel()
	if programs.skip != "" {
		t.Skip(programs.skip)
	}

	bin := t.TempDir()
	require.NoError(t, os.Symlink(programs.CLI, filepath.Join(bin, "csccm")))
	chart, err := filepath.Abs(chartDir)
	require.NoError(t, err)
	files, err := filepath.Glob("testdata/script/*.txtar")
	require.NoError(t, err)
	size := func(file string) int64 { return must.Get(os.Stat(file)).Size() }

	// Go starts the last parallel test first. If the longest test started last, it would run alone at the end.
	slices.SortFunc(files, func(a, b string) int { return cmp.Compare(size(a), size(b)) })
	testscript.RunT(scriptT{t}, testscript.Params{
		Files: files, RequireUniqueNames: true,
		Setup: func(v *testscript.Env) error {
			v.Setenv("PATH", bin+string(os.PathListSeparator)+v.Getenv("PATH"))
			v.Setenv("HOME", v.WorkDir)
			v.Setenv("CHART", chart)
			v.Setenv("EXAMPLES", filepath.Join(chart, "../../docs/examples"))
			v.Setenv("KUBECONFIG", filepath.Join(v.WorkDir, "kubeconfig"))
			if err := os.CopyFS(v.WorkDir, os.DirFS("testdata/script/shared")); err != nil {
				return err
			}
			v.Values["scene"] = &scene{
				t:        v.T().(scriptT).T,
				env:      env{Plane: &plane.Plane{}, home: v.WorkDir},
				operator: map[int]bool{},
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"cluster":       on((*scene).cluster),
			"cloudstack":    on((*scene).cloudstack),
			"config":        on((*scene).config),
			"server":        on((*scene).server),
			"csccm":         on((*scene).run),
			"exits":         on((*scene).exits),
			"kubectl":       on((*scene).kubernetes),
			"cloud":         on((*scene).call),
			"fault":         on((*scene).fault),
			"changes":       on((*scene).changes),
			"find":          on((*scene).find),
			"dialog":        on((*scene).talk),
			"declines":      on((*scene).declines),
			"agrees":        on((*scene).agrees),
			"kubelet":       on((*scene).kubelet),
			"mangle":        on((*scene).mangle),
			"harmless":      on((*scene).harmless),
			"initialised":   on((*scene).nodesReady),
			"address":       on((*scene).addressOf),
			"join":          on((*scene).join),
			"leave":         on((*scene).leave),
			"secret":        on((*scene).credentials),
			"provider":      on((*scene).provider),
			"until":         until,
			"rules":         on((*scene).rulesOf),
			"logs":          on((*scene).podLogs),
			"ledger":        on((*scene).ledger),
			"fails":         on((*scene).fails),
			"passes":        on((*scene).passes),
			"behind":        on((*scene).behind),
			"pods":          on((*scene).pods),
			"serve":         on((*scene).serve),
			"killed":        on((*scene).killed),
			"no-controller": on((*scene).noController),
			"pause-leader":  on((*scene).pauseLeader),
			"changing":      on((*scene).changing),
			"certificate":   on((*scene).certificate),
			"datapath":      on((*scene).datapath),
		},
	})
}

// scriptT adapts testing.T to testscript.T.
type scriptT struct{ *testing.T }

func (t scriptT) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { f(scriptT{t}) })
}

func (scriptT) Verbose() bool { return testing.Verbose() }

// scene is the environment of a script.
type scene struct {
	env
	t            *testing.T
	whole        *clusterEnv // with nodes; nil for an API server alone
	serving      *httptest.Server
	out          io.Writer    // output of the command that until runs
	calls, lines int          // what changes has already printed: entries of the ledger, and lines of the audit log
	operator     map[int]bool // calls of the command cloud, by number
	secret       string       // secret key in the cloud-config
	faults       []measured   // recorded by the commands fails and passes
}

// on turns a method into a testscript command. Errors of package must fail the script; after "!" they are expected.
func on(method func(*scene, *testscript.TestScript, []string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, wantError bool, args []string) {
		err := must.Catch(func() { method(ts.Value("scene").(*scene), ts, args) })
		if wantError && err == nil {
			ts.Fatalf("it succeeded")
		} else if !wantError {
			ts.Check(err)
		}
	}
}

// cluster gives the script an API server of its own and the context "test" for it. With "nodes" it also has Kubernetes'
// other controllers, and nodes can join. Further words are programs of testdata that become images on the nodes.
func (s *scene) cluster(ts *testscript.TestScript, args []string) {
	o, options := plane.Options{APIOnly: true}, testenv.ClusterOptions{Images: map[string]string{}}
	if len(args) > 0 {
		o, options.Controller, options.Heartbeat = plane.Options{
			NodeGrace: defaultGrace,
		}, programs.Controller, time.Second
		for _, name := range args[1:] {
			path := filepath.Join(s.t.TempDir(), name)
			build := []string{"build", "-trimpath", "-buildvcs=false", "-o", path, "./testdata/" + name}
			// #nosec G204 -- of the script
			out, err := exec.CommandContext(s.t.Context(), "go", build...).CombinedOutput()
			must.Be(err == nil, "%v: %s", err, out)
			options.Images["registry.example/csccm/"+name] = path
		}
	}

	s.Plane = borrow(s.t, o)
	nodes := must.Get(testenv.NewCluster(s.Plane, options))
	s.Client = nodes.Client
	if len(args) > 0 {
		s.whole = newClusterEnvOf(s.t, s.Plane, nil, nodes)
		// the clean-up of whole searches the copy for keys
		s.t.Cleanup(func() { _, _ = s.session.WriteTo(&s.whole.session) })
	}

	ts.Setenv("PATH", ts.Getenv("PATH")+string(os.PathListSeparator)+filepath.Dir(s.Kubectl))

	// A separate user: the audit log then shows what csccm has changed.
	must.OK(s.kubeconfigOf(filepath.Join(s.home, "kubeconfig"), "test", "csccm", s.url()))
}

// cloudstack starts a CloudStack with a world (example, cks or that of a file) and writes the cloud-config of the VMs'
// owner. Old rules in the example belong to Service default/web, if it exists: their names are derived from its UID.
// With "inside" the cluster's nodes are those of the first cluster that CloudStack Kubernetes Service creates.
func (s *scene) cloudstack(ts *testscript.TestScript, args []string) {
	w := simulator.ExampleWorld()
	switch args[0] {
	case "example":
	case "cks":
		w = world.CKSWorld(s.t)
	default:
		w = must.Get(simulator.LoadWorld(strings.NewReader(ts.ReadFile(args[0]))))
	}

	if s.Client != nil {
		if web, err := s.Client.CoreV1().Services(metav1.NamespaceDefault).Get(s.t.Context(), "web",
			metav1.GetOptions{}); err == nil {
			balancer := cloudprovider.DefaultLoadBalancerName(web)
			for _, ip := range w.PublicIPs {
				for i := range ip.LoadBalancerRules {
					ip.LoadBalancerRules[i].Name = strings.Replace(ip.LoadBalancerRules[i].Name,
						"a0123456789abcdef0123456789abcde", balancer, 1)
				}
			}
			ts.Setenv("LB", balancer)
		}
	}

	options := simulator.Options{World: w}
	if len(args) > 1 {
		options.Inside = &testenv.CKS{Cluster: s.whole.nodes}
	}

	s.cloud = must.Get(testenv.StartCloudStackWith(options))
	s.t.Cleanup(s.cloud.Stop)
	if s.whole != nil {
		s.whole.cloud = s.cloud
	}

	c := must.Get(s.cloud.Config(owner))
	s.secret = c.SecretKey
	ts.Setenv("CLOUDSTACK", s.cloud.URL)
	ts.Setenv("API_KEY", c.APIKey)
	ts.Setenv("SECRET_KEY", c.SecretKey)
	s.config(ts, []string{"cloud-config"})
}

// config writes the owner's cloud-config with changed or additional settings to a file.
func (s *scene) config(ts *testscript.TestScript, args []string) {
	all := map[string]string{"api-url": s.cloud.URL, "api-key": ts.Getenv("API_KEY"), "secret-key": s.secret}
	for _, setting := range args[1:] {
		key, value, _ := strings.Cut(setting, "=")
		all[key] = value
	}
	text := "[Global]\n"
	for key, value := range all {
		text += fmt.Sprintf("%s = %s\n", key, value)
	}
	must.OK(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// server starts a server that refuses connections, hangs, answers garbage or has an untrusted certificate, in place of
// CloudStack or Kubernetes. The variable contains its URL.
func (s *scene) server(ts *testscript.TestScript, args []string) {
	over := make(chan struct{})
	answers := map[string]http.HandlerFunc{
		"refuses": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if strings.HasPrefix(r.URL.Path, "/client") {
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = io.WriteString(w,
					`{"listcapabilitiesresponse":{"errorcode":401,"errortext":"unable to verify user credentials"}}`)
				return
			}
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Forbidden","code":403}`)
		},
		"hangs":     func(http.ResponseWriter, *http.Request) { <-over },
		"untrusted": func(http.ResponseWriter, *http.Request) {},
		"garbage": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html><body>Please log in</body></html>")
		},
	}

	start := httptest.NewServer
	if args[0] == "untrusted" {
		start = httptest.NewTLSServer
	}

	server := start(answers[args[0]])
	s.t.Cleanup(func() { close(over); server.Close() })
	ts.Setenv(args[1], server.URL)
}

// kubelet simulates the parts of a kubelet that csccm reads: its flags and the log of a container, both from files.
func (s *scene) kubelet(ts *testscript.TestScript, args []string) {
	certificate := must.Get(s.ServingCertificate("system:node:"+args[0], []string{"system:nodes"}, args[0]))
	flags, log := ts.ReadFile(args[1]), ts.ReadFile(args[2])
	mux := http.NewServeMux()
	mux.HandleFunc("GET /flagz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, flags) })
	mux.HandleFunc("GET /containerLogs/",
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, log) })
	server := httptest.NewUnstartedServer(mux)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	remove := s.Route(args[0]+":10250", server.Listener.Addr().String())
	s.t.Cleanup(func() { remove(); server.Close() })
}

// run runs csccm and requires exit code 0.
func (s *scene) run(ts *testscript.TestScript, args []string) {
	s.exits(ts, append([]string{"0", "csccm"}, args...))
}

// exits runs csccm and requires an exit code. With an argument {a,b c} it runs csccm twice: with "a" and with "b c" in
// its place.
func (s *scene) exits(ts *testscript.TestScript, args []string) {
	want := must.Get(strconv.Atoi(args[0]))
	for i, arg := range args {
		if alternatives, ok := strings.CutPrefix(arg, "{"); ok {
			must.Be(strings.HasSuffix(arg, "}"), "%s has no end: quote alternatives with blanks", arg)
			s.each(ts, want, args[2:i], strings.Split(strings.TrimSuffix(alternatives, "}"), ","), args[i+1:])
			return
		}
	}

	code := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		must.OK(err)
	}

	must.Be(code == want, "it ended with %d, want %d", code, want)
	s.session.WriteString(ts.ReadFile("stdout") + ts.ReadFile("stderr"))
	must.OK(s.said(args[2:], code, ts.ReadFile("stdout"), ts.ReadFile("stderr")))
}

// each runs csccm once for each of several arguments, which it inserts between the others. All run at the same time,
// because some wait for a server.
func (s *scene) each(ts *testscript.TestScript, want int, before, alternatives, after []string) {
	s.inherit(ts)
	stdout, stderr := make([]bytes.Buffer, len(alternatives)), make([]bytes.Buffer, len(alternatives))
	err := must.Catch(func() {
		must.Each(len(alternatives), func(i int) {
			cmd := s.command(s.t.Context(), slices.Concat(before, strings.Fields(alternatives[i]), after)...)
			cmd.Stdout, cmd.Stderr = &stdout[i], &stderr[i]
			_ = cmd.Run() // the exit code is compared instead of the error
			code := cmd.ProcessState.ExitCode()
			must.Be(want == anyCode || code == want, "%s: it ended with %d, want %d", alternatives[i], code, want)
			must.OK(s.said(cmd.Args[1:], min(code, want), stdout[i].String(), stderr[i].String()))
		})
	})
	for i := range alternatives {
		_, _ = stdout[i].WriteTo(ts.Stdout())
		_, _ = stderr[i].WriteTo(ts.Stderr())
	}
	must.OK(err)
}

// changing runs commands that change something in each way that must not change anything: a dry run, also with --yes,
// ends with 0; without a terminal the error names the missing flag; with -o json stdout is one JSON document.
func (s *scene) changing(ts *testscript.TestScript, args []string) {
	for _, way := range []struct {
		code  string
		flags []string
	}{
		{"0", []string{"--dry-run"}},
		{"0", []string{"--dry-run", "--yes"}},
		{"0", []string{"--dry-run", "--yes", "-o", "json"}},
		{"2", nil},
		{"2", []string{"-o", "json"}},
	} {
		for command := range strings.SplitSeq(strings.Trim(args[0], "{}"), ",") {
			s.exits(ts, slices.Concat([]string{way.code, "csccm"}, strings.Fields(command), args[1:], way.flags))
			stdout, stderr := ts.ReadFile("stdout"), ts.ReadFile("stderr")
			must.Be(stdout != "", "%s %v: the plan is not shown", command, way.flags)
			must.Be(!slices.Contains(way.flags, "json") || json.Valid([]byte(stdout)), "%s %v: this is no JSON: %s",
				command, way.flags, stdout)
			must.Be(way.code == "0" ||
				strings.Contains(stderr, "nothing has been changed: confirmation required"), "%s %v: %s",
				command, way.flags, stderr)
		}
	}
}

// anyCode accepts every exit code.
const anyCode = -1

// said checks the output of csccm: it contains no key and no control sequence, and every error names a remedy.
func (s *scene) said(args []string, code int, stdout, stderr string) error {
	switch all := stdout + stderr; {
	case s.secret != "" && strings.Contains(all, s.secret), strings.Contains(all, "-canary"):
		return errors.New("a secret is in the output")
	case strings.Contains(all, "goroutine "):
		return errors.New("it panicked")
	case (code == 1 || code == 2) && (stderr != "" || stdout == "") && !errorAndFix.MatchString(stderr):
		return errors.New("there is no error with what to do")
	}
	return harmful(args, stdout, stderr)
}

// talk runs csccm on a terminal and requires an exit code. Each line of a file is a question, then " | " and what to
// type.
func (s *scene) talk(ts *testscript.TestScript, args []string) {
	keys := strings.NewReplacer("<enter>", enter, "<down>", down, "<clear>", clearLine, "<^C>", interrupt, "<SIGTERM>",
		terminate)
	var answers []answer
	for line := range strings.Lines(os.Expand(ts.ReadFile(args[1]), ts.Getenv)) {
		question, typed, _ := strings.Cut(strings.TrimSpace(line), " | ")
		answers = append(answers, answer{question, keys.Replace(typed)})
	}
	s.answers(ts, must.Get(strconv.Atoi(args[0])), answers, args[3:])
}

// declines runs csccm on a terminal and answers its question with no.
func (s *scene) declines(ts *testscript.TestScript, args []string) {
	s.answers(ts, 2, []answer{{args[0], "n" + enter}}, args[2:])
}

// agrees runs csccm on a terminal and answers its question with yes.
func (s *scene) agrees(ts *testscript.TestScript, args []string) {
	s.answers(ts, 0, []answer{{args[0], "y" + enter}}, args[2:])
}

// answers prints the screen of a dialog on one line.
func (s *scene) answers(ts *testscript.TestScript, code int, answers []answer, args []string) {
	s.inherit(ts)
	said := s.dialog(s.t, answers, args...).want(s.t, code)
	_, _ = fmt.Fprintln(ts.Stdout(), strings.Join(strings.Fields(said.all), " "))
}

// inherit passes the script's environment to programs that do not run through testscript.
func (s *scene) inherit(ts *testscript.TestScript) {
	s.environ = nil
	for _, name := range []string{"KUBECONFIG", "CLOUDSTACK_API_KEY", "CLOUDSTACK_SECRET_KEY"} {
		s.environ = append(s.environ, name+"="+ts.Getenv(name))
	}
}

var errorAndFix = regexp.MustCompile(`(?m)^error: .*(\n .*)*\n  fix: `)

// kubernetes runs kubectl as the administrator.
func (s *scene) kubernetes(ts *testscript.TestScript, args []string) {
	must.OK(ts.Exec(s.Kubectl, append([]string{"--kubeconfig", s.Kubeconfig}, args...)...))
}

// call runs a command as CloudStack's operator, with parameters as name=value.
func (s *scene) call(ts *testscript.TestScript, args []string) {
	params := map[string]string{"listall": "true"}
	for _, arg := range args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		params[name] = value
	}
	before := len(s.cloud.Ledger().Calls())
	answer := must.Get(s.cloud.Admin(s.t.Context(), args[0], params))
	for _, c := range s.cloud.Ledger().Calls()[before:] {
		s.operator[c.Seq] = true
	}
	_, _ = fmt.Fprintln(s.stdout(ts), string(must.Get(json.MarshalIndent(answer, "", "  "))))
}

// fault injects faults like cloudstack-sim --fault; without arguments it removes all.
func (s *scene) fault(_ *testscript.TestScript, args []string) {
	if len(args) == 0 {
		for _, f := range s.cloud.Faults() {
			s.cloud.Disarm(f.ID)
		}
	}
	for _, text := range args {
		s.cloud.Inject(must.Get(simulator.ParseFault(text)))
	}
}

// changes prints what csccm has changed in CloudStack and in the cluster since the last call.
func (s *scene) changes(ts *testscript.TestScript, _ []string) {
	out := ts.Stdout()
	if s.cloud != nil {
		calls := s.cloud.Ledger().Calls()
		for _, c := range calls[s.calls:] {
			if !s.operator[c.Seq] && !readOnly.MatchString(c.Command) {
				_, _ = fmt.Fprintln(out, "cloud", c.Command)
			}
		}
		s.calls = len(calls)
	}

	if s.Client == nil {
		return
	}

	lines := must.Get(s.AuditLog())
	for _, line := range lines[s.lines:] {
		var r request
		must.OK(json.Unmarshal([]byte(line), &r))
		o := r.ObjectRef
		if r.User.Username == "csccm" &&
			slices.Contains(writes, r.Verb) &&
			o.APIGroup != "authorization.k8s.io" &&
			!strings.Contains(r.RequestURI, "dryRun") {
			_, _ = fmt.Fprintln(out, "cluster", r.Verb, o.Resource, o.Namespace+"/"+o.Name)
		}
	}

	s.lines = len(lines)
}

var (
	readOnly = regexp.MustCompile("^(list|get|query|log)")
	writes   = []string{"create", "update", "patch", "delete", "deletecollection"}
)

// find sets a variable to what the parentheses of a regular expression match in the output of the last command.
func (*scene) find(ts *testscript.TestScript, args []string) {
	found := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	must.Be(len(found) == 2, "%s is not found", args[1])
	ts.Setenv(args[0], found[1])
}
