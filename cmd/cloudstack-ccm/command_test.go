// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/version"
)

// The framework registers providers and flags for the whole process. Each test therefore runs the program as a separate
// process: this test binary, which then acts as the program.
const beMain = "CSCCM_TEST_BE_CLOUDSTACK_CCM"

func TestMain(m *testing.M) {
	if os.Getenv(beMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

const (
	apiKey    = "the-api-key-of-the-test"
	secretKey = "the-secret-key-of-the-test"
	goodINI   = "[Global]\napi-url = http://127.0.0.1:1/client/api\napi-key = " + apiKey + "\nsecret-key = " +
		secretKey + "\n"
)

// raceNotice is what apimachinery logs when it is built with the race detector.
var raceNotice = regexp.MustCompile(`(?m)^.*Data race detection enabled\n`)

type outcome struct {
	stdout, stderr string
	code           int
}

func run(t *testing.T, args ...string) outcome {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), beMain+"=1", "KUBECONFIG=", "KUBERNETES_SERVICE_HOST=")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	o := outcome{stdout.String(), raceNotice.ReplaceAllString(stderr.String(), ""), cmd.ProcessState.ExitCode()}
	for _, secret := range []string{apiKey, secretKey} {
		assert.NotContains(t, o.stdout+o.stderr, secret)
	}
	return o
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "cloud-config")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	assert.Equal(t, outcome{stdout: version.String() + "\n"}, run(t, "--version"))
	o := run(t, "--help")
	assert.Zero(t, o.code)
	for _, want := range []string{
		"cloudstack-ccm [flags]", `(default "external-cloudstack")`, "--provider-id-format", "--instance-type-format",
		"--drift-period", "--cluster-id",
		"--node-deletion-limit", "--node-internal-cidrs", "--node-labels", "--ca-bundle",
		"apiserver. (default 200)", "apiserver. (default 400)", "(default 20)",
		`leader election. (default "cloud-controller-manager")`, `leader election. (default "kube-system")`,
	} {
		assert.Contains(t, o.stdout, want)
	}
	assert.NotContains(t, o.stdout, "configured on the cloud provider. (default true)")
}

func TestWrongInputIsOneClearLine(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		name string
		args []string
		ini  string
		want string
	}{
		{name: "no cloud-config", want: "no cloud-config: give its file with --cloud-config"},
		{name: "no such file", args: []string{"--cloud-config", missing}, want: "cloud-config: open " + missing},
		{
			name: "no such provider",
			args: []string{"--cloud-provider=aws"},
			ini:  goodINI,
			want: "--cloud-provider=aws is not known: want external-cloudstack",
		},
		{
			name: "no provider",
			args: []string{"--cloud-provider="},
			ini:  goodINI,
			want: "--cloud-provider= is not known: want external-cloudstack",
		},
		{name: "an unknown key", ini: goodINI + "zones = zone-1\n", want: `line 5: unknown key \"zones\"`},
		{name: "a bad URL", ini: strings.Replace(goodINI, "http://", "htp://", 1), want: "api-url"},
		{name: "no secret key", ini: strings.Replace(goodINI, "secret-key", "region", 1), want: "secret-key"},
		{name: "an empty file", ini: "\n", want: "[Global]"},
		{
			name: "a bad option",
			args: []string{"--provider-id-format=k3s"},
			ini:  goodINI,
			want: `--provider-id-format: provider id format \"k3s\" is not known`,
		},
		{
			name: "a bad period",
			args: []string{"--drift-period=1s"},
			ini:  goodINI,
			want: "--drift-period: 1s is too short",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := c.args
			if c.ini != "" {
				args = append(args, "--cloud-config", file(t, c.ini))
			}

			o := run(t, args...)
			assert.Equal(t, 1, o.code)
			assert.Contains(t, o.stderr, c.want)
			assert.Equal(t, 1, strings.Count(strings.TrimSpace(o.stderr), "\n")+1, o.stderr)
			assert.Empty(t, o.stdout)
		})
	}
}

// Command lines from existing manifests: upstream's deployment, and flags that its users add.
func TestUpstreamFlagsAreTaken(t *testing.T) {
	t.Parallel()

	config := file(t, goodINI)
	for _, line := range []string{
		"--leader-elect=true --cloud-provider=external-cloudstack",
		"--leader-elect=true --cloud-provider=external-cloudstack --allow-untagged-cloud --v=3 " +
			"--use-service-account-credentials",
		"--cloud-provider=cloudstack --leader-elect=false --cluster-name=prod --configure-cloud-routes=false " +
			"--allocate-node-cidrs=false",
		"--controllers=cloud-node,cloud-node-lifecycle,service --concurrent-service-syncs=3 --secure-port=0 " +
			"--bind-address=127.0.0.1",
		"--leader-elect-resource-name=cloud-controller-manager --leader-elect-resource-namespace=kube-system " +
			"--secure-port=10258 --webhook-secure-port=0 --cluster-id=a --drift-period=5m " +
			"--provider-id-format=cloudstack --instance-type-format=upstream --kube-api-qps=50 " +
			"--kube-api-burst=100 --v=2",
		"--authorization-always-allow-paths=/healthz,/readyz,/livez --logging-format=json " +
			"--node-status-update-frequency=1m",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			o := run(t, append(strings.Fields(line), "--cloud-config", config)...)
			assert.Equal(t, 1, o.code)
			// Flags and cloud-config are accepted; the program only fails because there is no API server.
			assert.Contains(t, o.stderr, "no configuration has been provided, try setting KUBERNETES_MASTER")
			assert.NotContains(t, o.stderr, "unknown flag")
		})
	}
}
