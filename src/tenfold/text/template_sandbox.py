"""A Jinja environment in which a hostile template can neither reach Python nor use more than its budget.

Jinja's sandbox keeps templates from Python's internals. Its own limits leave room for endless work and
endless text, so this environment adds: a step before every turn of a loop and every macro call (put into the
template's syntax tree), a check before every operator, call and filter whose result can be larger than its
input, only those filters, functions and methods that chat templates have use for, and no import of other
templates.
"""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from tenfold.text import template_budget
from tenfold.text.template_budget import MAX_WIDTH, Budget, TemplateLimitError
from tenfold.text.template_names import FILTERS, STR_METHODS, TEXT_FILTERS

_IMPORTS: tuple[type[nodes.Node], ...] = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)
_METHODS: dict[type, frozenset[str]] = {
    str: frozenset(STR_METHODS),
    dict: frozenset(("get", "items", "keys", "values", "copy")),
    list: frozenset(("count", "index", "copy")),
    tuple: frozenset(("count", "index")),
}
_PADDING = frozenset(("center", "ljust", "rjust", "zfill"))


class TemplateRaisedError(Exception):
    """The template called raise_exception with this message."""


class SandboxEnvironment(ImmutableSandboxedEnvironment):
    """The environment. A rendering sets `use(budget)` around its work; without one nothing runs."""

    intercepted_binops: ClassVar[frozenset[str]] = frozenset(("+", "*", "**", "%"))  # type: ignore[misc]

    def __init__(self) -> None:
        # Without the optimizer no expression is computed at compile time, outside a budget.
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            extensions=[loopcontrols, _GenerationTag],
            finalize=self._put_out,
        )
        self._local = threading.local()
        filters = {name: self.filters[name] for name in FILTERS}
        self.filters = {name: self._counted(name, function) for name, function in filters.items()}
        self.filters["tojson"] = self._to_json
        self.globals = {
            "range": self.globals["range"],
            "dict": dict,
            "namespace": Namespace,
            "raise_exception": _raise_exception,
            "strftime_now": _strftime_now,
        }

    def use(self, budget: Budget | None) -> None:
        """Set what the rendering on this thread may use."""
        self._local.budget = budget

    @property
    def budget(self) -> Budget:
        """The budget of the rendering on this thread."""
        budget: Budget | None = getattr(self._local, "budget", None)
        if budget is None:
            raise TemplateLimitError("runs outside a rendering")
        return budget

    def bounded(self, source: str) -> jinja2.Template:
        """Compile a template with the steps put in. Raises jinja2.TemplateError, or TemplateLimitError."""
        tree = self.parse(source)
        if any(tree.find(kind) for kind in _IMPORTS):
            raise TemplateLimitError("imports another template, which is not allowed")
        tree = _Steps(self).visit(tree)
        return jinja2.Template.from_code(self, self.compile(tree), self.make_globals(None))

    def tick(self, chars: int) -> bool:
        """Called from inside templates: one more turn, which puts out this many characters of plain text."""
        self.budget.step(1 + chars)
        return True

    def joined(self, parts: list[Any]) -> str:
        """Called from inside templates for the operator `~`."""
        self.budget.allow(self.budget.weigh(parts))
        return "".join(map(str, parts))

    def checked(self, value: Any) -> Any:
        """Called from inside templates for every list, tuple and dict that they write down."""
        self.budget.step(self.budget.weigh(value))
        return value

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Check, then compute."""
        template_budget.binary(self.budget, operator, left, right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Check that the object may be called and what it would build, then call it."""
        if getattr(obj, "__func__", None) in _INTERNAL:
            return obj(*args)
        budget = self.budget
        # Jinja passes the variables of the enclosing loop or block too; they were counted when they were
        # made.
        given = {name: value for name, value in kwargs.items() if name not in ("_loop_vars", "_block_vars")}
        owner = _owner(obj)
        if owner is not None:
            args = self._check_method(owner, obj, args, given)
        else:
            budget.step(budget.weigh(args, given))
            if isinstance(obj, type) and obj not in (dict, Namespace):
                raise TemplateLimitError(f"calls {obj.__name__!r}, which is not allowed")
        return budget.built(super().call(context, obj, *args, **kwargs))

    def _check_method(
        self, owner: Any, method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Refuse what is not allowed or would be too large; return the arguments, a generator made a list."""
        budget = self.budget
        name = getattr(method, "__name__", "")
        if name not in _METHODS.get(type(owner), ()):
            raise TemplateLimitError(f"calls {type(owner).__name__}.{name}, which is not allowed")
        if not isinstance(owner, str):
            return args
        if name in _PADDING:
            budget.allow(max([len(owner), *(a for a in args if isinstance(a, int))]))
        elif name == "replace" and len(args) >= 2:
            _check_replace(budget, owner, args[0], args[1])
        elif name in ("format", "format_map"):
            template_budget.str_format(budget, owner, (args, kwargs))
        elif name == "join" and args:
            items = args[0] if isinstance(args[0], str) else list(args[0])
            budget.allow(budget.weigh(items) + len(owner) * len(items))
            return (items, *args[1:])
        return args

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a filter so that its input and its result are counted."""
        check = _FILTER_CHECKS.get(name)
        skip = 1 if hasattr(function, "jinja_pass_arg") else 0

        def counted(*args: Any, **kwargs: Any) -> Any:
            budget = self.budget
            values = args[skip:]
            if check is not None:
                values = check(budget, values, kwargs)
            else:
                budget.step()
            return budget.built(function(*args[:skip], *values, **kwargs))

        if skip:
            counted.jinja_pass_arg = function.jinja_pass_arg  # type: ignore[attr-defined]
        return counted

    def _to_json(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """JSON as chat templates expect it: no HTML escapes, Unicode as it is."""
        if indent is not None and not 0 <= int(indent) <= 16:
            raise TemplateLimitError("indents JSON by more than 16")
        weight = self.budget.weigh(value) * (1 + int(indent or 0))
        self.budget.allow(weight if indent is None else weight * 2)
        if separators is not None and sum(map(len, separators)) > 16:
            raise TemplateLimitError("separates JSON by more than 16 characters")
        text = json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )
        self.budget.built(text)
        return text

    def _put_out(self, value: Any) -> Any:
        """Count what an output expression puts out; values are refused before they become text."""
        if isinstance(value, str):
            self.budget.allow(len(value))
        elif not isinstance(value, Undefined):
            self.budget.allow(self.budget.weigh(value))
        return value


_INTERNAL = (SandboxEnvironment.tick, SandboxEnvironment.joined, SandboxEnvironment.checked)


class _GenerationTag(Extension):
    """`{% generation %}...{% endgeneration %}` marks text for training; here its body is just rendered."""

    tags: ClassVar[set[str]] = {"generation"}  # type: ignore[misc]

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the body."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Steps(NodeTransformer):
    """Puts steps into a template's syntax tree, and checks around what builds values."""

    def __init__(self, environment: SandboxEnvironment) -> None:
        self._environment = environment

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - the visitor's protocol
        chars = _plain_chars(node.body)
        self.generic_visit(node)
        node.body.insert(0, _statement("tick", nodes.Const(chars)))
        if node.test is not None:
            node.test = nodes.And(_call("tick", nodes.Const(1)), node.test)
        return self._placed(node)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:  # noqa: N802
        return self._with_step(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:  # noqa: N802
        return self._with_step(node)

    def visit_Block(self, node: nodes.Block) -> nodes.Node:  # noqa: N802
        return self._with_step(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return self._placed(_call("joined", nodes.List(node.nodes)), node)

    def visit_List(self, node: nodes.List) -> nodes.Node:  # noqa: N802
        return self._checked(node)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:  # noqa: N802
        return self._checked(node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        return self._checked(node) if node.ctx == "load" else node

    def _checked(self, node: nodes.Expr) -> nodes.Node:
        self.generic_visit(node)
        return self._placed(_call("checked", node), node)

    def _with_step(self, node: Any) -> nodes.Node:
        chars = _plain_chars(node.body)
        self.generic_visit(node)
        node.body.insert(0, _statement("tick", nodes.Const(chars)))
        return self._placed(node)

    def _placed(self, node: nodes.Node, like: nodes.Node | None = None) -> nodes.Node:
        """Give new nodes the line and the environment of the old one."""
        node.set_environment(self._environment)
        node.set_lineno((like or node).lineno or 1)
        return node


def _call(name: str, argument: nodes.Expr) -> nodes.Call:
    return nodes.Call(nodes.EnvironmentAttribute(name), [argument], [], None, None)


def _statement(name: str, argument: nodes.Expr) -> nodes.ExprStmt:
    return nodes.ExprStmt(_call(name, argument))


def _plain_chars(body: Iterable[nodes.Node]) -> int:
    """Return the characters of plain text and of constants in a body, which are put out without a check."""
    count = 0
    for node in body:
        if isinstance(node, nodes.TemplateData):
            count += len(node.data)
        elif isinstance(node, nodes.Const) and isinstance(node.value, str):
            count += len(node.value)
        elif not isinstance(node, (nodes.For, nodes.Macro, nodes.CallBlock, nodes.Block)):
            count += _plain_chars(node.iter_child_nodes())
    return count


def _owner(obj: Any) -> Any:
    """Return the value that a built-in method belongs to, None for what is no method of a value."""
    method = getattr(obj, "__wrapped__", obj)  # the sandbox wraps str.format
    owner = getattr(method, "__self__", None)
    if owner is None or isinstance(owner, type(json)) or type(owner).__module__.startswith("jinja2"):
        return None
    return owner


def _check_replace(budget: Budget, text: Any, old: Any, new: Any) -> None:
    if isinstance(text, str) and isinstance(old, str) and isinstance(new, str):
        budget.allow(len(text) + text.count(old) * len(new))


def _replace_filter(budget: Budget, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    budget.weigh(args, kwargs)
    values = [*args, *kwargs.values()]
    _check_replace(budget, str(values[0]) if values else "", *(str(v) for v in [*values[1:3], "", ""][:2]))
    return args


def _join_filter(budget: Budget, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    if not args:
        return args
    items = args[0] if isinstance(args[0], str) else list(args[0])
    separator = args[1] if len(args) > 1 else kwargs.get("d", "")
    budget.allow(budget.weigh(items) + budget.weigh(separator) * len(items))
    return (items, *args[1:])


def _format_filter(budget: Budget, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    if args:
        template_budget.printf(budget, str(args[0]), (args[1:], kwargs))
    return args


def _indent_filter(budget: Budget, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    width = args[1] if len(args) > 1 else kwargs.get("width", 4)
    size = len(width) if isinstance(width, str) else int(width)
    if size > MAX_WIDTH:
        raise TemplateLimitError(f"indents by more than {MAX_WIDTH}")
    if args:
        budget.weigh(args[0])
        text = str(args[0])
        budget.allow(len(text) + size * (1 + len(text.splitlines())))
    return args


def _int_filter(budget: Budget, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    budget.step()
    if args and isinstance(args[0], str) and len(args[0]) > MAX_WIDTH:
        raise TemplateLimitError(f"reads a number of more than {MAX_WIDTH} digits")
    return args


def _weighed(budget: Budget, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    budget.step(budget.weigh(args, kwargs))
    return args


_FILTER_CHECKS: Mapping[str, Callable[[Budget, tuple[Any, ...], dict[str, Any]], tuple[Any, ...]]] = {
    "replace": _replace_filter,
    "join": _join_filter,
    "format": _format_filter,
    "indent": _indent_filter,
    "int": _int_filter,
    "float": _int_filter,
    **dict.fromkeys(TEXT_FILTERS, _weighed),
}


def _raise_exception(message: Any) -> None:
    raise TemplateRaisedError(str(message))


def _strftime_now(pattern: str) -> str:
    if len(pattern) > 100 or any(c.isdigit() for c in pattern.split("%", 1)[-1] if "%" in pattern):
        raise TemplateLimitError("writes the time in a pattern that is not allowed")
    return datetime.datetime.now().strftime(pattern)
