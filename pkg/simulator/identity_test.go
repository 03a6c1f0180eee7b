// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// login starts a session and returns a function that calls with it.
func (h *env) login(user, password, domain string) (answer, func(command string, pairs ...string) answer) {
	h.t.Helper()
	q := url.Values{"command": {"login"}, "username": {user}, "password": {password}, "response": {"json"}}
	if domain != "" {
		q.Set("domain", domain)
	}
	resp, err := http.Post(h.url, "application/x-www-form-urlencoded", strings.NewReader(q.Encode()))
	require.NoError(h.t, err)
	cookies := resp.Cookies()
	a := decode(h.t, resp)
	return a, func(command string, pairs ...string) answer {
		h.t.Helper()
		q := url.Values{"command": {command}, "response": {"json"}, "sessionkey": {a.str("sessionkey")}}
		for i := 0; i < len(pairs); i += 2 {
			q.Set(pairs[i], pairs[i+1])
		}
		req, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.url+"?"+q.Encode(), nil)
		require.NoError(h.t, err)
		for _, c := range cookies {
			req.AddCookie(c)
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(h.t, err)
		return decode(h.t, resp)
	}
}

// obj returns the one object inside an answer.
func (h *env) obj(a answer, name string) map[string]any {
	h.t.Helper()
	h.ok(a)
	m, ok := a.body[name].(map[string]any)
	require.True(h.t, ok, a.raw)
	return m
}

// tenant makes a domain with an account whose user has keys; the names are those of the user for call.
func (h *env) tenant(domain, account string, pairs ...string) (domainID, accountID, userID string) {
	h.t.Helper()
	domains := h.ok(h.root("listDomains", "name", domain)).items("domain")
	if len(domains) == 0 {
		domains = append(domains, h.obj(h.root("createDomain", "name", domain), "domain"))
	}
	domainID = id(domains[0])
	args := append([]string{
		"username", account, "password", "pw", "firstname", "F", "lastname", "L", "email", "a@b.c", "domainid", domainID, "accounttype", "0",
	}, pairs...)
	a := h.obj(h.root("createAccount", args...), "account")
	userID = id(a["user"].([]any)[0].(map[string]any))
	h.ok(h.root("registerUserKeys", "id", userID))
	return domainID, id(a), userID
}

// TestSession has what the recorded cases login.* and logout.ok lack.
func TestSession(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	_, call := h.login("admin", "password", "/")
	h.fails(call("noSuchCommand"), 432, wire.CSGeneric, "Unknown API command: noSuchCommand")
	require.Equal(t, "success", h.ok(call("logout")).str("description"))
	h.fails(call("listZones"), 401, 0, wire.AuthText)
	_, call = h.login("admin", "password", "")
	h.ok(call("listRoles"))
	h.clock.Step(30*time.Minute + 1)
	h.fails(call("listZones"), 401, 0, wire.AuthText)
	require.Equal(t, http.StatusMethodNotAllowed, h.get(h.url+"?command=login&username=admin&password=password").status)
}

// TestBootstrap makes role, account, user and keys as an installer does, as an admin.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	h.play(`
		admin createRole name=ccm type=User > role
		admin createRolePermission roleid={role} rule=listZones permission=allow
		+ rule=listApis
		+ rule=listVirtual*
		+ rule=* permission=deny
		admin createRole name=clone roleid={role} > clone
		admin listRolePermissions roleid={clone} => count 4
		admin createAccount username=kubeadmin password=p firstname=f lastname=l email=e@x roleid={role} => name=kubeadmin > user.0.id=user
		admin getUserKeys id={user} => apikey=-
		admin registerUserKeys id={user} > apikey=key

		kubeadmin listZones
		kubeadmin listApis name=listZones => count 1
		kubeadmin listApis => name=listApis
		kubeadmin createLoadBalancerRule => 432/9999 The API [createLoadBalancerRule]
		admin deleteRole id={role} => 531/4365 role in use
	`)
	require.Len(t, h.vars["key"], 86)
	// Keys die with the next registration.
	old := h.signed("kubeadmin", "listZones")
	h.play("admin registerUserKeys id={user}")
	require.Equal(t, 401, h.get(h.url+"?"+old.Encode()).status)
	h.play("kubeadmin listZones")
}

// TestProjectOfKubernetesService: the role that CloudStack gives to clusters of a project denies what upstream calls.
func TestProjectOfKubernetesService(t *testing.T) {
	t.Parallel()
	w := ExampleWorld()
	w.Accounts = append(w.Accounts, Account{Name: "kubeadmin-p", Role: store.CKSProjectRole, Users: []User{{Name: "cks"}}})
	w.Projects = []Project{{Name: "p1", Owner: "k8s", Members: []string{"kubeadmin-p"}}}
	h := start(t, Options{World: w})
	p := h.first(h.call("k8s-owner", "listProjects"), "project")
	h.ok(h.call("cks", "listVirtualMachines", "projectid", id(p)))
	for _, denied := range []string{"listZones", "listTags", "createTags", "listNetworkACLLists", "listVPCs", "listCapabilities", "listApis"} {
		require.Equal(t, 432, h.call("cks", denied).status, denied)
	}
}

func TestIntegrationPort(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	h.play(`
		root listVirtualMachines listall=true => count 3
		root noSuchCommand => 432/9999 Unknown API command`)
	nothing := h.root("")
	h.fails(nothing, 432, wire.CSGeneric, "Invalid request, no command sent")
	require.Equal(t, "errorresponse", nothing.key)
}

func TestDomains(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	h.play(`
		root createDomain name=dev => path=ROOT/dev vmlimit=40 vmrunning=- > dev  # domains count VMs, but not by state
		root createDomain name=sub parentdomainid={dev} => path=ROOT/dev/sub level=2
		root createDomain name=DEV => 431/4350 Domain with name [DEV] already exists for the parent with ID [1].
		root createDomain => 431/9999 missing parameter name
		root listDomains level=0 => vmlimit=Unlimited
		root listDomains id={dev} details=min => path=ROOT/dev
	`)
	_, account, _ := h.tenant("dev", "worker")
	h.set("account", account).play(`
		root deleteDomain id={dev} => job 530 Delete failed on domain dev
		root deleteDomain id={dev} cleanup=true
		root listDomains name=dev => count 0
		root listAccounts id={account} listall=true => 431/4350 Unable to find account by id
		root deleteDomain id={dev} => 431/4350 domain not found
		root deleteDomain id={ROOT} => job 530 Can't delete ROOT domain
	`)
}

func TestDeletionOfAccounts(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	_, account, _ := h.tenant("dev", "worker")
	h.set("account", account).play(`
		root listAccounts name=admin > admin
		root deleteAccount id={admin} => job 431 Deletion of your own account is not allowed
		root deleteAccount id={account}
		root deleteAccount id={account}
		root deleteAccount id=nope => 431/9999 Invalid parameter id value=nope
	`)
}

func TestUsers(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	d, _, _ := h.tenant("dev", "worker")
	h.set("d", d).play(`
		root createUser username=second account=worker domainid={d} password=pw firstname=S lastname=U email=e > second
		+ username=third account=nobody => 431/4350 Unable to find account nobody in domain Domain {
	`)
	a, _ := h.login("worker", "pw", "/dev")
	h.ok(a)
	for range 5 {
		h.login("second", "wrong", "/dev")
	}
	h.play(`
		root listUsers id={second} => state=disabled  # five wrong passwords disable a user
		root deleteUser id={second} => success=true
		root deleteUser id={second} => 431/4350 The specified user doesn't exist in the system
		root listUsers username=admin > admin
		root deleteUser id={admin} => 431/4350 can't be (re)moved
	`)
}

func TestDomainAdminsStayBelowThemselves(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	d, _, userID := h.tenant("dev", "worker")
	h.tenant("dev", "boss", "accounttype", "2")
	h.set("d", d, "user", userID).play(`
		root listUsers username=admin > admin
		dev/boss registerUserKeys id={admin} => 531/4365 {denied}
		dev/boss registerUserKeys id={user}
		dev/boss createAccount username=u password=pw firstname=F lastname=L email=e accounttype=0 => 531/4365 {denied}  # in ROOT
		+ accounttype=1 domainid={d} => 431/4350 in non-ROOT domain
		+ domainid={d}
		root createRole name=wide type=User > wide
		root createRolePermission roleid={wide} rule=createZone permission=allow
		dev/boss createAccount username=v password=pw firstname=F lastname=L email=e roleid={wide} domainid={d} \
			=> 531/4365 access to more privileges they have
		dev/boss listDomains => count 1
		dev/boss listDomains id={ROOT} => 531/4365 {denied}
	`)
}

func TestProjectLife(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	d, aliceID, _ := h.tenant("dev", "alice")
	_, _, bobUser := h.tenant("dev", "bob")
	h.set("d", d, "alice", aliceID, "bob", bobUser, "projects", strconv.Itoa(2+len(ExampleWorld().Projects))).play(`
		dev/alice createProject name=p1 displaytext=first => state=Active owner.0.account=alice > p
		dev/alice createProject name=P1 => 431/4350 Project with name P1 already exists in domain id=
		root createProject name=p2 account=alice => 431/4350 Account name and domain id must be specified together
		root createProject name=p2 account=nobody domainid={d} => 431/4350 Unable to find account nobody in domain
		root createProject name=p2 account=bob domainid={d}
		root listProjects listall=true => count {projects}
		root listProjects account=bob domainid={d} => count 1
		dev/bob listProjects => count 1

		dev/bob listNetworks projectid={p} => 432
		dev/alice addAccountToProject projectid={p} => job 431 Either accountName or email is required
		dev/alice addAccountToProject projectid={p} account=nobody => job 431 Unable to find account name=nobody
		dev/alice addAccountToProject projectid={p} account=bob
		dev/alice addAccountToProject projectid={p} account=bob
		dev/bob listNetworks projectid={p}
		dev/bob deleteProject id={p} => job 530 {denied}
		root deleteAccount id={alice} => job 431 because it manages the following project(s)
		dev/alice deleteProject id={p}
		dev/alice deleteProject id={p} => 431/4350 Unable to find project by id
		dev/alice listProjects => count 0
		root deleteAccount id={alice}
	`)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	d, _, _ := h.tenant("dev", "alice")
	h.set("d", d).play(`
		root updateResourceLimit resourcetype=5 max=1 account=alice domainid={d} => resourcetypename=project max=1
		dev/alice createProject name=p1 > p
		dev/alice createProject name=p2 => 535/4370 Maximum amount of resources of Type = 'project', tag = 'null' for Account Name = alice in Domain Id = 2 is exceeded: \
			Account Resource Limit = 1, Current Account Resource Amount = 1, Current Account Resource Reservation = 0, Requested Resource Amount = 1.
		root updateResourceLimit resourcetype=5 max=-1 account=alice domainid={d}
		root updateResourceLimit resourcetype=5 max=1 domainid={d}
		dev/alice createProject name=p2 => 535/4370 Maximum domain resource limits of Type 'project' for Domain Id = {d} is exceeded: Domain

		root updateResourceLimit resourcetype=0 max=-2 account=alice domainid={d} => 431/4350 Please specify either '-1' for an infinite limit
		+ max=1 resourcetype=99 => 431/4350 Please specify valid resource type
		+ max=1 domainid=- => 431/4350 Account must be specified with domainId parameter
		+ max=1 account=x => 431/4350 Unable to find account by name x in domain with specified id
		+ max=1 account=- domainid=- => 431/4350 AccountId or domainId have to be specified
		+ max=1 account=- domainid={ROOT} => 531/4365 Cannot update resource limit for ROOT domain 1
		+ max=1 account=admin domainid={ROOT} => 431/4350 Only -1 limit is supported for Root Admin accounts
		+ max=1 resourcetype=- => 431/9999 missing parameter resourcetype
		+ max=many => 431/9999 invalid value many for parameter max
		root createDomain name=sub parentdomainid={d} > sub
		root updateResourceLimit resourcetype=1 max=5 domainid={d}
		root updateResourceLimit resourcetype=1 max=6 domainid={sub} => 431/4350 Domain sub(id: 2) has maximum allowed resource limit 5 for

		root updateResourceLimit resourcetype=0 max=7 projectid={p} => max=7
		dev/alice listProjects => vmlimit=7
		root updateConfiguration name=max.account.user.vms value=3
		dev/alice listAccounts => vmlimit=3
	`)
}

func TestConfigurations(t *testing.T) {
	t.Parallel()
	h := start(t, Options{})
	h.tenant("dev", "alice")
	h.play(`
		root updateConfiguration name=default.page.size value=2
		root listRoles page=1 pagesize=3 => 431/4350 Page size can't exceed max allowed page size value: 2
		root updateConfiguration name=default.page.size value=many => 431/4350 There was an error trying to parse the integer value for
		root updateConfiguration name=allow.user.create.projects value=perhaps => 431/4350 Please enter either 'true' or 'false'.
		root updateConfiguration name=no.such.setting value=1 => 431/4350 Config parameter with name no.such.setting doesn't exist
		root updateConfiguration name=allow.user.create.projects value=false
		dev/alice createProject name=p => 531/4365 Regular user is not permitted to create a project
		dev/alice listCapabilities => allowusercreateprojects=false
		root updateConfiguration name=api.throttling.max value=2
		root updateConfiguration name=api.throttling.enabled value=true
		dev/alice listCapabilities => apilimitmax=2
		dev/alice listZones
		dev/alice listZones => 429
	`)
}
