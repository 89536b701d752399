package httplimit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/httplimit"
)

// elsewhere are the functions and methods that have models or tests of their own, and why.
var elsewhere = map[string]string{
	"AddressOfIdentity": "addresses", "ByAddressOf": "addresses", "IPv4Prefix": "addresses", "IPv6Prefix": "addresses",
	"ReadForwarded": "addresses", "ReadHeader": "addresses", "TrustHops": "addresses", "TrustProxies": "addresses", "TrustUnixSocket": "addresses",
	"ByPathValue": "inside a mux", "ByRoute": "inside a mux", "ByRouteOf": "inside a mux",
	"HashTag":         "clusters",
	"ByHost":          "clients",
	"Transport.Admit": "clients", "Transport.CloseIdleConnections": "clients", "Transport.HoldBack": "clients", "Transport.Obey": "clients", "Transport.Reserve": "clients",
	"Transport.RoundTrip": "clients",
	"TurnError.Error":     "clients", "TurnError.Unwrap": "clients",
	"Outcome.MarshalText": "texts", "Outcome.String": "texts", "Outcome.UnmarshalText": "texts",
}

// Every exported function, method, option and field of a policy stands in a table of the model.
func TestModel_HasAllOfThePackage(t *testing.T) {
	known := map[string]bool{}
	for _, call := range modelCalls {
		for _, name := range strings.Fields(call.covers) {
			known[name] = true
		}
	}
	for _, o := range modelOptions {
		name, _, _ := strings.Cut(o.name, "(")
		known[name] = true
	}
	for _, k := range modelKeys {
		known[k.name] = true
	}
	for _, f := range settleFunctions {
		known[f.name] = true
	}
	for name := range elsewhere {
		known[name] = true
	}
	of := exported(t)
	for _, name := range of {
		if !known[name] {
			t.Errorf("%s is in no table of the model", name)
		}
	}
	for name := range elsewhere {
		require.Contains(t, of, name)
	}
	requireFields(t, httplimit.Policy{}, policyFields, func(f policyField) string { return f.name })
	requireFields(t, httplimit.Queue{}, queueFields, func(f queueField) string { return f.name })
}

func requireFields[F any](t *testing.T, of any, fields []F, name func(F) string) {
	var names, want []string
	for _, f := range fields {
		names = append(names, name(f))
	}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
		want = append(want, f.Name)
	}
	slices.Sort(names)
	slices.Sort(want)
	require.Equal(t, want, names)
}

// exported returns the exported functions, and the exported methods of exported types.
func exported(t *testing.T) (names []string) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.IsExported() && (f.Recv == nil || ast.IsExported(receiver(f))) {
				names = append(names, receiver(f)+f.Name.Name)
			}
		}
	}
	return names
}

// receiver returns the type of which f is a method, with a dot; empty if it is a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	return of.(*ast.Ident).Name + "."
}
