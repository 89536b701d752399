package main

// inFrameworks is the package of the tests of all adapters.
const inFrameworks = "httplimit/frameworks"

// ofAdapters are the faults of the adapters of frameworks.
var ofAdapters = []mutant{
	{
		name: "gin-goes-on", fault: "a request that is refused is served all the same",
		file: "httplimit/ginlimit/ginlimit.go", old: "c.Abort()\n\t\t\t_ = o.Refuse(", new: "_ = o.Refuse(",
		tests: "TestFrameworks_ServeWhatIsAdmitted", in: inFrameworks,
	},
	{
		name: "gin-aborts-late", fault: "a request is served whose refusal panics, behind a recovery that does not abort",
		file: "httplimit/ginlimit/ginlimit.go", old: "c.Abort()\n\t\t\t_ = o.Refuse(", new: "defer func() {\n\t\t\t\tif failed := recover(); failed != nil {\n\t\t\t\t\tpanic(failed)\n\t\t\t\t}\n\t\t\t\tc.Abort()\n\t\t\t}()\n\t\t\t_ = o.Refuse(",
		tests: "TestGin_ServesNothing", in: inFrameworks,
	},
	{
		name: "gin-charges-the-skipped", fault: "a request that is skipped is charged",
		file: "httplimit/ginlimit/ginlimit.go", old: "if skips(o, c) {\n", new: "if skips(o, c) {\n\t\t\tl.Decide(nil, newRequest(c))\n",
		tests: "TestCrossing_Skipped", in: inFrameworks,
	},
	{
		name: "gin-serves-what-a-skipper-panics-at", fault: "behind a recovery that does not abort, a request goes on whose skipper has panicked",
		file: "httplimit/ginlimit/ginlimit.go", old: "		if !returned {\n			c.Abort()\n", new: "		if !returned {\n",
		tests: "TestGin_ServesNothing", in: inFrameworks,
	},
	{
		name: "echo-charges-the-skipped", fault: "a request that is skipped is charged",
		file: "httplimit/echolimit/echolimit.go", old: "if m.Skips(c) {\n", new: "if m.Skips(c) {\n\t\t\t\tl.Decide(nil, c.Request())\n",
		tests: "TestCrossing_Skipped", in: inFrameworks,
	},
	{
		name: "echo4-charges-the-skipped", fault: "a request that is skipped is charged",
		file: "httplimit/echo4limit/echo4limit.go", old: "if m.Skips(c) {\n", new: "if m.Skips(c) {\n\t\t\t\tl.Decide(nil, c.Request())\n",
		tests: "TestCrossing_Skipped", in: inFrameworks,
	},
	{
		name: "fiber-charges-the-skipped", fault: "a request that is skipped is charged",
		file: "httplimit/fiberlimit/fiberlimit.go", old: "if o.Skips(c) {\n", new: "if o.Skips(c) {\n\t\t\tl.Decide(nil, newRequest(c))\n",
		tests: "TestCrossing_Skipped", in: inFrameworks,
	},
	{
		name: "adapter-keeps-content-of-others", fault: "an application's refusal has the length and the ETag of another answer",
		file: "httplimit/internal/adapter/adapter.go", old: "dropContent(h)\n\t\th.Set", new: "h.Set",
		tests: "TestCrossing_RefusalsDrop", in: inFrameworks,
	},
	{
		name: "adapter-keeps-content-of-the-unidentified", fault: "the refusal of a client that cannot be told has the length and the ETag of another answer",
		file: "httplimit/internal/adapter/adapter.go", old: "dropContent(h)\n\t\treturn o.Unidentified", new: "return o.Unidentified",
		tests: "TestCrossing_RefusalsDrop", in: inFrameworks,
	},
	{
		name: "adapter-caches-denials", fault: "an application's refusal may be kept by caches",
		file: "httplimit/internal/adapter/adapter.go", old: "\t\th.Set(\"Cache-Control\", \"no-store\")\n", new: "",
		tests: "TestIdioms_Refuse", in: inFrameworks,
	},
	{
		name: "adapter-loses-the-error", fault: "the error of WithDenied does not reach the application",
		file: "httplimit/internal/adapter/adapter.go", old: "return o.Denied(c, v.Denial)", new: "_ = o.Denied(c, v.Denial)\n\t\treturn nil",
		tests: "TestIdioms_Refuse", in: inFrameworks,
	},
	{
		name: "adapter-loses-the-error-of-the-unidentified", fault: "the error of WithUnidentified does not reach the application",
		file: "httplimit/internal/adapter/adapter.go", old: "return o.Unidentified(c)", new: "_ = o.Unidentified(c)\n\t\treturn nil",
		tests: "TestIdioms_Refuse", in: inFrameworks,
	},
	{
		name: "adapter-answers-the-abandoned-itself", fault: "a request that leaves a queue is not refused in the application's way",
		file: "httplimit/internal/adapter/adapter.go", old: "(v.Outcome == httplimit.Denied || v.Outcome == httplimit.Abandoned)", new: "v.Outcome == httplimit.Denied",
		tests: "TestCrossing_Queues", in: inFrameworks,
	},
	{
		name: "adapter-knows-no-context", fault: "the functions of policies do not find the framework's context",
		file: "httplimit/internal/adapter/adapter.go", old: "context.WithValue(ctx, own[C]{}, c)", new: "ctx",
		tests: "TestIdioms_KeyByWhat", in: inFrameworks,
	},
	{
		name: "adapter-keys-by-nothing", fault: "without the framework's context all requests are one client's",
		file: "httplimit/internal/adapter/adapter.go", old: "return \"\", false\n\t\t}\n\t\treturn identity(c)", new: "return \"\", true\n\t\t}\n\t\treturn identity(c)",
		tests: "TestIdioms_KnowNothing", in: inFrameworks,
	},
	{
		name: "gin-knows-one-parameter", fault: "only the first parameter of a path is found",
		file: "httplimit/ginlimit/ginlimit.go", old: "c.Request.SetPathValue(p.Key, p.Value)\n", new: "c.Request.SetPathValue(p.Key, p.Value)\n\t\tbreak\n",
		tests: "TestCrossing_KeyByAllParameters", in: inFrameworks,
	},
	{
		name: "echo-knows-one-parameter", fault: "only the first parameter of a path is found",
		file: "httplimit/echolimit/echolimit.go", old: "c.Request().SetPathValue(p.Name, p.Value)\n", new: "c.Request().SetPathValue(p.Name, p.Value)\n\t\t\t\tbreak\n",
		tests: "TestCrossing_KeyByAllParameters", in: inFrameworks,
	},
	{
		name: "echo4-knows-one-parameter", fault: "all parameters of a path have the value of the first",
		file: "httplimit/echo4limit/echo4limit.go", old: "c.ParamValues()[i]", new: "c.ParamValues()[i*0]",
		tests: "TestCrossing_KeyByAllParameters", in: inFrameworks,
	},
	{
		name: "fiber-knows-one-parameter", fault: "only the first parameter of a path is found",
		file: "httplimit/fiberlimit/request.go", old: "strings.Clone(c.Params(name)))\n", new: "strings.Clone(c.Params(name)))\n\t\tbreak\n",
		tests: "TestCrossing_KeyByAllParameters", in: inFrameworks,
	},
	{
		name: "fiber-parameters-share-memory", fault: "a policy that keeps a parameter has another request's",
		file: "httplimit/fiberlimit/request.go", old: "strings.Clone(c.Params(name))", new: "c.Params(name)",
		tests: "TestFiber_GivesPoliciesParameters", in: inFrameworks,
	},
	{
		name: "fiber-sets-by-deleting", fault: "a header that the limiter sets changes the order of other lines",
		file: "httplimit/fiberlimit/answer.go", old: "\t\t\tto.Set(name, lines[0])\n", new: "\t\t\tto.Del(name)\n\t\t\tto.Set(name, lines[0])\n",
		tests: "TestFiber_KeepsTheOrder", in: inFrameworks,
	},
	{
		name: "fiber-deletes-by-swapping", fault: "a header that a refusal deletes changes the order of other lines",
		file: "httplimit/fiberlimit/answer.go", old: "\t\tdelete(all, name)\n\t\treplaceHeader(h.c, all)\n", new: "\t\th.c.Response().Header.Del(name)\n",
		tests: "TestFiber_KeepsTheOrder", in: inFrameworks,
	},
	{
		name: "fiber-deletes-canonical-names", fault: "a refusal keeps headers of other content that the app writes in its own way",
		file: "httplimit/fiberlimit/answer.go", old: "names = append(names, string(name))", new: "names = append(names, http.CanonicalHeaderKey(string(name)))",
		tests: "TestFiber_KeepsTheOrder", in: inFrameworks,
	},
	{
		name: "fiber-sends-what-was-begun", fault: "an application's refusal has the body of another answer",
		file: "httplimit/fiberlimit/fiberlimit.go", old: "\t\t\tc.Response().ResetBody() // of an answer that another handler has begun\n", new: "",
		tests: "TestFiber_RefusesInTheApplicationsWay", in: inFrameworks,
	},
	{
		name: "fiber-aborts-the-process", fault: "a function of a policy that panics by http.ErrAbortHandler ends the process",
		file: "httplimit/decide.go", old: "	p := c.running // nil: an observer,", new: "	if fault == http.ErrAbortHandler {\n\t\tpanic(fault)\n\t}\n	p := c.running // nil: an observer,",
		tests: "TestFiber_Survives", in: inFrameworks,
	},
	{
		name: "fiber-lends-for-ever", fault: "the Settle of a stream finds fiber's context, which may be another request's",
		file: "httplimit/fiberlimit/fiberlimit.go", old: "\t\tadapter.TakeBack[fiber.Ctx](r)    // fiber", new: "\t\t// fiber",
		tests: "TestFiber_KnowsItsContext", in: inFrameworks,
	},
	{
		name: "fiber-settles-early", fault: "a download and a websocket hold their units only until the handler has returned",
		file: "httplimit/fiberlimit/fiberlimit.go", old: "if lasts(c) {", new: "if response.Bytes < 0 {",
		tests: "TestAdapters_HoldASlotOfALongResponse", in: inFrameworks,
	},
	{
		name: "fiber-waits-for-no-hijack", fault: "a connection that closes is never settled, since it is not hijacked",
		file: "httplimit/fiberlimit/fiberlimit.go", old: "c.RequestCtx().Hijacked() && !closes", new: "c.RequestCtx().Hijacked() && !(closes && false)",
		tests: "TestFiber_HijacksNoConnection", in: inFrameworks,
	},
	{
		name: "fiber-answers-errors-twice", fault: "an error is answered by the limiter, and then by the app",
		file: "httplimit/fiberlimit/fiberlimit.go", old: "	return nil\n}\n\n// A settlement", new: "	return err\n}\n\n// A settlement",
		tests: "TestFiber_AnswersAnErrorOnce", in: inFrameworks,
	},
	{
		name: "eitherecho-skips-the-context", fault: "within a limiter whose charges may change, the request has lost the framework's context",
		file: "httplimit/internal/eitherecho/eitherecho.go", old: "		c.SetRequest(r)\n", new: "",
		tests: "TestModel_AdaptersAreAlike", in: inFrameworks,
	},
	{
		name: "echo-swallows-the-error", fault: "middleware around the limiter does not learn of a handler's error",
		file: "httplimit/internal/eitherecho/eitherecho.go", old: "	}), own, r)\n	return err", new: "	}), own, r)\n	return nil",
		tests: "TestEcho_AnswersAnErrorOnce", in: inFrameworks,
	},
	{
		name: "echo-answers-late", fault: "the limiter does not see how an error is answered",
		file: "httplimit/internal/eitherecho/eitherecho.go", old: "			m.Answer(c, err)\n", new: "",
		tests: "TestFrameworks_GiveBack", in: inFrameworks,
	},
	{
		name: "echo-keeps-the-writer", fault: "what is around the limiter writes to its recorder",
		file: "httplimit/internal/eitherecho/eitherecho.go", old: "	defer func() { *writer = own }()\n", new: "",
		tests: "TestEcho_AnswersAnErrorOnce", in: inFrameworks,
	},
	{
		name: "gin-keeps-the-writer", fault: "what is around the limiter writes to its recorder",
		file: "httplimit/ginlimit/ginlimit.go", old: "	defer func() { n.c.Writer = own }() // also for a Recovery before the middleware\n", new: "",
		tests: "TestGin_LetsMiddlewareBeforeItAnswer|TestAdapters_KnowAPanic", in: inFrameworks,
	},
	{
		name: "adapters-keep-the-form", fault: "a handler does not find the form that a policy has read, nor the server its files",
		file: "httplimit/internal/adapter/adapter.go", old: "own.Body, own.Form, own.PostForm, own.MultipartForm = r.Body, r.Form, r.PostForm, r.MultipartForm", new: "own.Body = r.Body",
		tests: "TestAdapters_PoliciesAndHandlersReadOneForm", in: inFrameworks,
	},
	{
		name: "adapters-keep-the-body", fault: "a handler does not find the body that a policy has read and put back",
		file: "httplimit/internal/adapter/adapter.go", old: "own.Body, own.Form, own.PostForm, own.MultipartForm = r.Body, r.Form, r.PostForm, r.MultipartForm", new: "own.Form, own.PostForm, own.MultipartForm = r.Form, r.PostForm, r.MultipartForm",
		tests: "TestAdapters_PoliciesAndHandlersReadOneForm", in: inFrameworks,
	},
	{
		name: "gin-leaves-files", fault: "the server does not delete the files of a form that a handler has read",
		file: "httplimit/ginlimit/ginlimit.go", old: "			defer adapter.ShareBody(own, r) // also if a handler panics\n", new: "",
		tests: "TestAdapters_PoliciesAndHandlersReadOneForm", in: inFrameworks,
	},
	{
		name: "echo-leaves-files", fault: "the server does not delete the files of a form that a handler has read",
		file: "httplimit/internal/eitherecho/eitherecho.go", old: "	defer adapter.ShareBody(request, r) // also if a handler panics\n", new: "",
		tests: "TestAdapters_PoliciesAndHandlersReadOneForm", in: inFrameworks,
	},
	{
		name: "echo-reads-another-form", fault: "a policy that reads the form by echo's context takes it from the handler",
		file: "httplimit/internal/eitherecho/eitherecho.go", old: "	c.SetRequest(r) // whose form a policy may read by c, too\n", new: "",
		tests: "TestAdapters_PoliciesAndHandlersReadOneForm", in: inFrameworks,
	},
	{
		name: "gin-reads-another-form", fault: "a policy that reads the form by gin's context takes it from the handler",
		file: "httplimit/ginlimit/ginlimit.go", old: "		c.Request = r // whose form a policy may read by c, too\n", new: "",
		tests: "TestAdapters_PoliciesAndHandlersReadOneForm", in: inFrameworks,
	},
}
