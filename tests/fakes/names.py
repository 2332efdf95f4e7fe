"""Names that stores allow, and that go wrong where somebody forgets to quote them."""

#: Name -> how it stands in a URL's path, written out.
NASTY_NAMES = {
    "two  blanks": "two%20%20blanks",
    " at both ends ": "%20at%20both%20ends%20",
    "100%": "100%25",
    "%2F%41": "%252F%2541",
    "what?format=json": "what%3Fformat%3Djson",
    "#fragment": "%23fragment",
    "a&b=c;d": "a%26b%3Dc%3Bd",
    "a+b": "a%2Bb",
    "it's": "it%27s",
    'say "no"': "say%20%22no%22",
    "back\\slash": "back%5Cslash",
    "line\nfeed\r\nX-Evil: 1": "line%0Afeed%0D%0AX-Evil%3A%201",
    "tab\tand\x1bescape\x07": "tab%09and%1Bescape%07",
    "größe 日本 \U0001f600": "gr%C3%B6%C3%9Fe%20%E6%97%A5%E6%9C%AC%20%F0%9F%98%80",
    "e\u0301 is not \u00e9": "e%CC%81%20is%20not%20%C3%A9",
    "c1\x85\x9b": "c1%C2%85%C2%9B",
    "\u202egnp.exe": "%E2%80%AEgnp.exe",
    "&lt;b&gt;&amp;&#10;": "%26lt%3Bb%26gt%3B%26amp%3B%26%2310%3B",
    "<b>]]>": "%3Cb%3E%5D%5D%3E",
    "{a}[b]|c^`": "%7Ba%7D%5Bb%5D%7Cc%5E%60",
    "a:b@c,d*!($)": "a%3Ab%40c%2Cd%2A%21%28%24%29",
    "..dots.": "..dots.",
    "~user-._": "~user-._",
}
